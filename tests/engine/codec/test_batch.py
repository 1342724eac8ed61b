"""Batches as arrays: what is checked, stamped and read out, against one record at a time."""

import random

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from apps.engine.codec import batch, check, scan
from apps.engine.codec.properties import decode_properties, encode_properties
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.codec.tags import java_hash
from apps.engine.errors import ChecksumMismatch, EngineError, MalformedBatch, MessageTooLarge

HOST = b"\x7f\x00\x00\x01\x00\x00\x1f\x40"


def a_batch(
    bodies: list[bytes], *, tags: list[str] | None = None, topic: bytes = b"orders", queue: int = 3
) -> tuple[bytearray, NDArray[np.int32]]:
    """Return payload and sizes of records with the given bodies."""
    records = [
        encode_record(
            topic=topic,
            queue=queue,
            body=body,
            properties=encode_properties({"TAGS": tags[i], "k": "v"} if tags else {}),
        )
        for i, body in enumerate(bodies)
    ]
    sizes = np.array([len(record) for record in records], dtype=np.int32)
    return bytearray(b"".join(records)), sizes


def checked(payload: bytearray, sizes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Check a batch both ways, which must agree, and return or raise what they do."""
    limits = {"topic": "orders", "queue": 3, "body_bytes_max": 500, "properties_bytes_max": 200}
    hashes, _, _ = check.check_batch(payload, sizes, **limits)
    assert check.check_few(payload, sizes, **limits)[0].tolist() == hashes.tolist()
    assert check.check_many(payload, sizes, **limits)[0].tolist() == hashes.tolist()
    return hashes


def refused(payload: bytearray, sizes: NDArray[np.int32], error: type[EngineError]) -> str:
    """Check a bad batch both ways, which must agree, and return the message."""
    limits = {"topic": "orders", "queue": 3, "body_bytes_max": 500, "properties_bytes_max": 200}
    messages = []
    for way in (check.check_few, check.check_many):
        with pytest.raises(error) as raised:
            way(payload, sizes, **limits)
        assert type(raised.value) is error
        messages.append(str(raised.value))
    assert messages[0].partition(":")[0] == messages[1].partition(":")[0]
    return messages[0]


@given(
    st.lists(
        st.tuples(st.binary(max_size=40), st.text("abTag中😀é", max_size=70)),
        min_size=1,
        max_size=20,
    )
)
def test_a_good_batch_passes_and_gives_javas_hash_of_each_tag(
    items: list[tuple[bytes, str]],
) -> None:
    payload, sizes = a_batch([body for body, _ in items], tags=[tag for _, tag in items])

    assert checked(payload, sizes).tolist() == [java_hash(tag) for _, tag in items]


def test_tags_are_found_wherever_they_stand_and_only_there() -> None:
    sections = [
        b"a\x01b\x02TAGS\x01TagA\x02",
        b"XTAGS\x01TagB\x02",
        b"a\x01TAGS\x02",
        b"TAGS\x01TagB\x02",
    ]
    records = [
        encode_record(topic=b"orders", queue=3, body=b"TAGS\x01", properties=s) for s in sections
    ]
    sizes = np.array([len(record) for record in records], dtype=np.int32)

    hashes = checked(bytearray(b"".join(records)), sizes)

    assert hashes.tolist() == [java_hash("TagA"), 0, 0, java_hash("TagB")]


@pytest.mark.parametrize("count", [1, 8, 9, 100])
def test_stamps_reach_every_record_and_nothing_else(count: int) -> None:
    payload, sizes = a_batch([b"x" * (i % 7) for i in range(count)])
    before = bytes(payload)
    starts = batch.starts_of(sizes)

    batch.stamp(
        payload, starts, queue_offset=10, log_offset=5000, store_time_ms=77, store_host=HOST
    )

    for number, start in enumerate(starts.tolist()):
        record = decode_record(payload, start)
        assert record.queue_offset == 10 + number
        assert record.log_offset == 5000 + start
        assert (record.store_time_ms, record.store_host) == (77, HOST)
        payload[start + 20 : start + 36] = bytes(16)
        payload[start + 56 : start + 72] = bytes(16)
    assert bytes(payload) == before


def test_entries_tell_where_each_record_lies() -> None:
    _, sizes = a_batch([b"a", b"bb"])

    entries = batch.queue_entries(batch.starts_of(sizes), sizes, np.array([5, -6]), log_offset=1000)

    assert entries["log_offset"].tolist() == [1000, 1000 + int(sizes[0])]
    assert entries["size_bytes"].tolist() == sizes.tolist()
    assert entries["tag_hash"].tolist() == [5, -6]
    assert len(entries.tobytes()) == 40


def test_a_payload_of_several_queues_is_split_in_order() -> None:
    places = [("orders", 3), ("%RETRY%group", 0), ("orders", 3), ("orders", 1), ("or", 3)]
    records = [
        encode_record(topic=t.encode(), queue=q, body=b"b" * i) for i, (t, q) in enumerate(places)
    ]
    sizes = np.array([len(record) for record in records], dtype=np.int32)

    runs = scan.queue_runs(b"".join(records), batch.starts_of(sizes))

    found = [(run.topic, run.queue, run.rows.tolist()) for run in runs]
    assert found == [
        ("orders", 3, [0, 2]),
        ("%RETRY%group", 0, [1]),
        ("orders", 1, [3]),
        ("or", 3, [4]),
    ]


def test_a_run_says_whether_its_offsets_have_a_hole() -> None:
    payload, sizes = a_batch([b"a", b"bb", b"c"])
    starts = batch.starts_of(sizes)
    batch.stamp(payload, starts, queue_offset=7, log_offset=0, store_time_ms=0, store_host=bytes(8))
    (whole,) = scan.queue_runs(payload, starts)

    payload[int(starts[2]) + 27] += 1
    (holed,) = scan.queue_runs(payload, starts)

    assert (whole.first_queue_offset, whole.has_holes) == (7, False)
    assert (holed.first_queue_offset, holed.has_holes) == (7, True)


@pytest.mark.parametrize(
    ("start", "value", "error"),
    [
        (0, b"\x00\x00\x00\x00", MalformedBatch),
        (4, b"\x00\x00\x00\x00", MalformedBatch),
        (8, b"\x00\x00\x00\x00", ChecksumMismatch),
        (12, b"\x00\x00\x00\x04", MalformedBatch),
        (36, b"\x00\x00\x00\x10", MalformedBatch),
        (84, b"\x7f\xff\xff\xff", MalformedBatch),
        (84, b"\xff\xff\xff\xff", MalformedBatch),
        (84, b"\x00\x00\x00\x00", MalformedBatch),
        (88, b"?", ChecksumMismatch),
    ],
)
@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_record_that_contradicts_its_batch_is_refused(
    start: int, value: bytes, error: type[EngineError], row: int
) -> None:
    payload, sizes = a_batch([b"first", b"second", b"third"])
    at = int(batch.starts_of(sizes)[row]) + start
    payload[at : at + len(value)] = value

    assert refused(payload, sizes, error).startswith(f"record {row}:")


def test_another_topic_or_size_table_is_refused() -> None:
    payload, sizes = a_batch([b"a", b"b"], topic=b"orderz")

    assert refused(payload, sizes, MalformedBatch)
    with pytest.raises(MalformedBatch):
        checked(payload[:-1], sizes)
    with pytest.raises(MalformedBatch):
        checked(payload, sizes[:1])
    with pytest.raises(MalformedBatch):
        checked(bytearray(), np.empty(0, dtype=np.int32))
    with pytest.raises(MalformedBatch):
        checked(payload, np.array([-5, len(payload) + 5], dtype=np.int32))


def test_bodies_and_properties_over_the_limit_are_refused() -> None:
    assert refused(*a_batch([b"ok", b"x" * 501]), MessageTooLarge).startswith("record 1:")
    assert refused(*a_batch([b"ok"], tags=["t" * 300]), MessageTooLarge).startswith("record 0:")


@pytest.mark.parametrize(
    "section",
    [
        b"name",
        b"\x01v\x02",
        b"a\x01b",
        b"a\x01b\x01c\x02",
        b"a\x02",
        b"a\x01b\x02\x02",
        b"a\x01\xff\x02",
    ],
)
def test_properties_that_nobody_could_read_are_refused(section: bytes) -> None:
    good = encode_record(topic=b"orders", queue=3, body=b"", properties=b"a\x01b\x02")
    bad = encode_record(topic=b"orders", queue=3, body=b"", properties=section)
    sizes = np.array([len(good), len(bad)], dtype=np.int32)

    assert refused(bytearray(good + bad), sizes, MalformedBatch).startswith("record 1:")


@given(
    st.lists(
        st.lists(
            st.sampled_from(
                [
                    *(b"\x01", b"\x02", b"TAGS", b"\xe4", "é".encode()),
                    *(b"a\x01b\x02", b"TAGS\x01a\x02", b"XTAGS\x01b\x02", b"TAGS\x01\x02"),
                ]
            ),
            max_size=6,
        ).map(b"".join),
        min_size=1,
        max_size=4,
    )
)
def test_properties_are_judged_the_same_one_by_one_and_by_arrays(sections: list[bytes]) -> None:
    records = [
        encode_record(topic=b"orders", queue=3, body=b"", properties=section)
        for section in sections
    ]
    payload = bytearray(b"".join(records))
    sizes = np.array([len(record) for record in records], dtype=np.int32)

    verdicts = []
    for way in (check.check_few, check.check_many):
        try:
            hashes, _, _ = way(
                payload,
                sizes,
                topic="orders",
                queue=3,
                body_bytes_max=500,
                properties_bytes_max=200,
            )
            verdicts.append(hashes.tolist())
        except MalformedBatch:
            verdicts.append(None)

    assert verdicts[0] == verdicts[1]
    if verdicts[0] is not None:
        tags = [decode_properties(section).get("TAGS", "") for section in sections]
        assert verdicts[0] == [java_hash(tag) for tag in tags]


def test_random_damage_never_passes_as_another_message() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    sizes_max = {"body_bytes_max": 500, "properties_bytes_max": 200}
    for _ in range(300):
        payload, sizes = a_batch(
            [rng.randbytes(rng.randrange(60)) for _ in range(4)], tags=["A"] * 4
        )
        original = bytes(payload)
        payload[rng.randrange(len(payload))] ^= 1 << rng.randrange(8)
        try:
            check.check_batch(payload, sizes, topic="orders", queue=3, **sizes_max)
        except EngineError as error:
            refused(payload, sizes, type(error))
            continue
        checked(payload, sizes)
        starts = batch.starts_of(sizes).tolist()
        for start in starts:
            # What passes differs in fields that are the producer's own: flag, times, properties.
            was, now = decode_record(original, start), decode_record(payload, start)
            assert (was.topic, was.queue, was.body) == (now.topic, now.queue, now.body)
