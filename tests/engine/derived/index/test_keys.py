"""Keys read and hashed by columns are those a plain reader finds; RocketMQ's numbers hold."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.engine.codec.properties import decode_properties, encode_properties
from apps.engine.derived.index import layout
from apps.engine.derived.index.keys import has_keys, keys_of

_TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=0, max_size=80
)
_NAMES = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "XKEYS", "KEYSX", "UNIQ_KEYS", "a", "K"])


def plain(topic: str, section: bytes) -> list[int]:
    """Return the hashes of a record's keys, read one by one."""
    properties = decode_properties(section)
    texts = [properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")]
    return [layout.key_hash(topic, text) for text in texts if text]


def test_the_hash_of_a_key_is_rocketmqs() -> None:
    assert layout.key_hash("TopicTest", "KEY1") == 1656969516
    assert layout.key_hash("TopicTest", "KEY1") % 5_000_000 == 1969516


def test_the_smallest_integer_becomes_0() -> None:
    # `polygenelubricants` hashes to it; so does this key behind a topic and `#`.
    seed = layout.topic_hash("t")
    key = key_of(seed, -(1 << 31))

    assert layout.key_hash("t", key) == 0
    assert hashes_of([("t", encode_properties({"KEYS": key}))]) == [[0]]


def key_of(seed: int, wanted: int) -> str:
    """Return a key with a hash behind a seed, digits of base 31 above a letter."""
    for length in range(7, 12):
        rest = (wanted - seed * pow(31, length, 1 << 32)) & 0xFFFFFFFF
        base = sum(48 * 31**n for n in range(length)) & 0xFFFFFFFF
        rest = (rest - base) & 0xFFFFFFFF
        digits = []
        for _ in range(length):
            rest, digit = divmod(rest, 31)
            digits.append(digit)
        if not rest:
            return "".join(chr(48 + digit) for digit in reversed(digits))
    raise AssertionError("no key found")


def hashes_of(records: list[tuple[str, bytes]]) -> list[list[int]]:
    """Return the hashes of each record's keys as the index finds them."""
    sections = b"".join(section for _, section in records)
    ends = np.cumsum([len(section) for _, section in records])
    seeds = np.array([layout.topic_hash(topic) for topic, _ in records], dtype=np.int64)
    found = keys_of(sections, ends, seeds)
    assert (np.diff(found.record) >= 0).all(), "not in order of the records"
    return [found.hashes[found.record == n].tolist() for n in range(len(records))]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["t", "TopicTest", "%RETRY%g"]),
            st.dictionaries(_NAMES, _TEXT | st.lists(_TEXT, max_size=4).map(" ".join), max_size=5),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_columns_find_what_a_plain_reader_finds(records: list[tuple[str, dict[str, str]]]) -> None:
    written = [(topic, encode_properties(properties)) for topic, properties in records]

    assert hashes_of(written) == [plain(topic, section) for topic, section in written]


def test_a_look_tells_sections_without_keys() -> None:
    assert has_keys(encode_properties({"KEYS": "a"}))
    assert has_keys(encode_properties({"a": "b", "UNIQ_KEY": "1"}))
    assert not has_keys(encode_properties({"TAGS": "KEYS"}))


def test_a_file_of_rocketmqs_sizes_is_as_long_as_rocketmqs() -> None:
    assert layout.entry_position(5_000_000, 20_000_000) == 420_000_040


def test_a_file_is_named_by_its_creation() -> None:
    assert layout.file_name(1_700_000_000_123) == "20231114221320123"
