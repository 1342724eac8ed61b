"""When delayed messages are due: by the quick look and by the long one, which must agree."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from apps.engine.codec.delayed import due_times_of, message_ids_of
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.scan import Properties
from apps.engine.errors import MalformedBatch

NOW_MS = 1_800_000_000_000
UNITS = {"TIMER_DELAY_SEC": 1_000, "TIMER_DELAY_MS": 1, "TIMER_DELIVER_MS": 1}
ABSOLUTE = "TIMER_DELIVER_MS"

numbers = st.integers(0, 10**15 - 1)
plain = st.dictionaries(
    st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "XTIMER_DELIVER_MS", "TIMER_DELIVER_MSX", "k"]),
    st.sampled_from(["", "7", "text", "TIMER_DELIVER_MS"]),
)
delays = st.dictionaries(st.sampled_from(sorted(UNITS)), numbers, min_size=1)


def sections_of(*records: dict[str, str]) -> Properties:
    """Return property sections as a checked batch has them."""
    sections = [encode_properties(record) for record in records]
    lengths = np.array([len(section) for section in sections], dtype=np.int64)
    return Properties(np.frombuffer(b"".join(sections), dtype=np.uint8), lengths)


def expected_ms(asked: dict[str, int]) -> int:
    """Return what RocketMQ makes of it: seconds before milliseconds before a moment."""
    name = next(name for name in UNITS if name in asked)
    return asked[name] * UNITS[name] + (0 if name == ABSOLUTE else NOW_MS)


def texts(asked: dict[str, int]) -> dict[str, str]:
    return {name: str(value) for name, value in asked.items()}


@given(st.lists(st.tuples(plain, delays), min_size=1, max_size=6))
def test_each_record_is_due_when_its_first_delay_says(
    records: list[tuple[dict[str, str], dict[str, int]]],
) -> None:
    sections = sections_of(*[others | texts(asked) for others, asked in records])

    found = due_times_of(sections, now_ms=NOW_MS)

    assert found.dtype == np.int64
    assert found.tolist() == [expected_ms(asked) for _, asked in records]


@given(st.lists(st.tuples(plain, numbers), min_size=1, max_size=6))
def test_records_with_one_moment_each_are_due_then(
    records: list[tuple[dict[str, str], int]],
) -> None:
    sections = sections_of(*[others | {ABSOLUTE: str(value)} for others, value in records])

    found = due_times_of(sections, now_ms=NOW_MS)

    assert found.tolist() == [value for _, value in records]


@pytest.mark.parametrize(
    "records",
    [
        [{ABSOLUTE: "5"}, {"k": "v"}],
        [{"k": "v"}, {ABSOLUTE: "5"}],
        [{"k": "v"}, {ABSOLUTE: "5", "XTIMER_DELIVER_MS": "6"}],
        [{ABSOLUTE: "soon"}],
        [{ABSOLUTE: ""}],
        [{ABSOLUTE: "-5"}],
        [{ABSOLUTE: "1" * 16}],
        [{ABSOLUTE: "\N{ARABIC-INDIC DIGIT FIVE}"}],
    ],
)
def test_a_record_without_a_delay_or_with_a_bad_one_is_refused(
    records: list[dict[str, str]],
) -> None:
    with pytest.raises(MalformedBatch):
        due_times_of(sections_of(*records), now_ms=NOW_MS)


def test_a_record_with_two_moments_does_not_stand_for_one_without() -> None:
    twice = encode_properties({ABSOLUTE: "5"}) * 2
    none = encode_properties({"k": "v"})
    data = np.frombuffer(twice + none, dtype=np.uint8)
    sections = Properties(data, np.array([len(twice), len(none)], dtype=np.int64))

    with pytest.raises(MalformedBatch, match="record 1"):
        due_times_of(sections, now_ms=NOW_MS)


@given(st.lists(plain, min_size=1, max_size=6))
def test_ids_are_those_of_their_records(records: list[dict[str, str]]) -> None:
    found = message_ids_of(sections_of(*records))

    assert found == [record.get("UNIQ_KEY", "") for record in records]
