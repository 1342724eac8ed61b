"""What filters take out of a queue, and how much one read looks at."""

from collections.abc import Mapping

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from apps.engine.broker.core import Broker, open_broker
from apps.engine.broker.selection import choose
from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import Record, decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.derived.consumequeue import ColdRead
from apps.engine.errors import InvalidFilter
from apps.engine.failpoints import Failpoints
from apps.engine.filters.subscription import compile_filter
from apps.engine.limits import KIB, MIB
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import (
    CatalogSnapshot,
    FilterType,
    MessageBlock,
    PullRequest,
    PullResult,
    PullStatus,
    ReceiveRequest,
    ReceiveResult,
    RecordBatch,
    TopicSpec,
)

TAG, SQL92 = FilterType.TAG, FilterType.SQL92
LARGE = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0)
SMALL = EngineConfig(
    segment_bytes=128 * KIB, batch_bytes_max=32 * KIB, body_bytes_max=KIB, reserve_bytes=0
)
SEGMENT = "commitlog/00000000000000000000"


class Store:
    """A broker on a simulated disk with the topic `t` of two queues."""

    def __init__(self, config: EngineConfig = SMALL) -> None:
        self.disk = SimulatedDisk()
        self.broker: Broker = open_broker(
            self.disk, config=config, clock=ManualClock(), failpoints=Failpoints()
        )
        self.broker.publish_catalog(
            CatalogSnapshot(version=1, topics={"t": TopicSpec(name="t", queue_count=2)})
        )

    def send(
        self, *messages: Mapping[str, str], queue: int = 0, body: bytes = b"", times: int = 1
    ) -> None:
        """Store messages with these properties, all of them so many times, for readers to see."""
        records = [
            encode_record(
                topic=b"t", queue=queue, body=body, properties=encode_properties(properties)
            )
            for properties in messages
        ]
        batch = RecordBatch(
            topic="t",
            queue=queue,
            payload=bytearray(b"".join(records) * times),
            sizes=np.array([len(record) for record in records] * times, dtype=np.int32),
        )
        self.broker.appender.write(self.broker.appender.check([batch]))
        self.broker.log.sync()
        self.broker.show_synced()

    def pull(self, text: str, kind: FilterType, start: int = 0, **more: int) -> PullResult:
        return self.broker.pull(
            PullRequest(
                topic="t", queue=0, queue_offset=start, filter=text, filter_type=kind, **more
            )
        )

    def receive(self, text: str, kind: FilterType, group: str = "g", **more: int) -> ReceiveResult:
        return self.broker.receive(
            ReceiveRequest(group=group, topics=("t",), filter=text, filter_type=kind, **more)
        )

    def committed(self, group: str = "g") -> dict[int, int]:
        """Return how far the group is in the queues it has come anywhere in."""
        progress = self.broker.offsets.progress(group)
        return {found.queue: found.committed for found in progress if found.committed}


@pytest.fixture
def store() -> Store:
    return Store(LARGE)


def records_of(block: MessageBlock) -> list[Record]:
    return [decode_record(block.payload, start) for start in starts_of(block.sizes).tolist()]


def offsets_of(result: PullResult | ReceiveResult) -> list[int]:
    blocks = [result.block] if isinstance(result, PullResult) else [x.block for x in result.leases]
    return [record.queue_offset for block in blocks for record in records_of(block)]


# --- what is taken -----------------------------------------------------------------------------

FILTERS = [
    ("*", TAG, lambda p: True),
    ("A", TAG, lambda p: p.get("TAGS") == "A"),
    ("A || C", TAG, lambda p: p.get("TAGS") in ("A", "C")),
    ("n > 5", SQL92, lambda p: "n" in p and p["n"].isdigit() and int(p["n"]) > 5),
    ("TAGS = 'A' OR n IS NULL", SQL92, lambda p: p.get("TAGS") == "A" or "n" not in p),
    ("TRUE", SQL92, lambda p: True),
    ("FALSE", SQL92, lambda p: False),
]  # fmt: skip
messages = st.fixed_dictionaries(
    {},
    optional={
        "TAGS": st.sampled_from(["A", "B", "C"]),
        "n": st.sampled_from(["1", "6", "77", "many"]),
        "中": st.text("xy", max_size=40),
    },
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(messages, min_size=1, max_size=60),
    st.sampled_from(FILTERS),
    st.integers(1, 8),
    st.integers(1, 600),
)
def test_pulls_to_the_end_give_all_that_matches_and_nothing_else(
    sent: list[dict[str, str]], wanted: tuple[str, FilterType, object], most: int, most_bytes: int
) -> None:
    text, kind, takes = wanted
    store = Store()
    for properties in sent:
        store.send(properties)

    found: list[int] = []
    at = 0
    while at < len(sent):
        result = store.pull(text, kind, at, messages_max=most, bytes_max=most_bytes)
        offsets = offsets_of(result)
        assert at < result.next_offset
        assert all(at <= offset < result.next_offset for offset in offsets)
        assert len(offsets) <= most
        assert len(offsets) <= 1 or len(result.block.payload) <= most_bytes
        assert result.status == (PullStatus.FOUND if offsets else PullStatus.NO_MATCHED_MSG)
        found += offsets
        at = result.next_offset

    assert found == [n for n, p in enumerate(sent) if takes(p)]  # type: ignore[operator]


@settings(max_examples=60, deadline=None)
@given(st.lists(messages, min_size=1, max_size=60), st.sampled_from(FILTERS), st.integers(1, 8))
def test_a_group_is_handed_what_matches_and_has_settled_the_rest(
    sent: list[dict[str, str]], wanted: tuple[str, FilterType, object], most: int
) -> None:
    text, kind, takes = wanted
    store = Store()
    for properties in sent:
        store.send(properties)

    found: list[int] = []
    while True:
        result = store.receive(text, kind, messages_max=most)
        if not result.leases:
            break
        found += offsets_of(result)
        for lease in result.leases:
            handles = [f"{lease.token}:{record.queue_offset}" for record in records_of(lease.block)]
            store.broker.settler.ack("g", handles)

    assert found == [n for n, p in enumerate(sent) if takes(p)]  # type: ignore[operator]
    assert store.committed() == {0: len(sent)}


def test_what_does_not_match_is_settled_although_what_matches_is_not(store: Store) -> None:
    store.send({"n": "1"}, {"n": "9"}, {"n": "1"}, {"n": "9"}, {"n": "1"})

    result = store.receive("n = 9", SQL92)

    assert offsets_of(result) == [1, 3]
    assert store.committed() == {0: 1}
    (lease,) = result.leases
    store.broker.settler.ack("g", [f"{lease.token}:1", f"{lease.token}:3"])
    assert store.committed() == {0: 5}


def test_what_was_given_back_is_handed_out_again_whatever_the_filter(store: Store) -> None:
    store.send({"n": "1"})
    (lease,) = store.receive("n = 1", SQL92).leases
    store.broker.settler.nack("g", [f"{lease.token}:0"], delay_ms=0, reason="")

    again = store.receive("n = 2", SQL92)

    assert [lease.attempt for lease in again.leases] == [2]


def test_a_tag_of_the_same_hash_passes_the_entries_and_not_the_text(store: Store) -> None:
    store.send({"TAGS": "Aa"}, {"TAGS": "BB"}, {"TAGS": "C"})

    result = store.pull("Aa", TAG)

    wanted = compile_filter("Aa", TAG)
    assert offsets_of(result) == [0, 1]
    assert [wanted.matches(record.properties) for record in records_of(result.block)] == [
        True,
        False,
    ]


def test_a_message_larger_than_asked_for_is_taken_by_itself(store: Store) -> None:
    store.send({"n": "1"}, body=b"x" * MIB, times=2)

    result = store.pull("n = 1", SQL92, bytes_max=10)

    assert offsets_of(result) == [0]
    assert result.next_offset == 1


# --- how much is looked at ---------------------------------------------------------------------


def test_a_condition_looks_at_a_thousand_messages_and_says_where_to_go_on(store: Store) -> None:
    store.send({"n": "1"}, times=1500)
    store.send({"n": "2"})

    first = store.pull("n = 2", SQL92)
    second = store.pull("n = 2", SQL92, first.next_offset)

    assert (first.status, first.next_offset) == (PullStatus.NO_MATCHED_MSG, 1024)
    assert (second.status, offsets_of(second)) == (PullStatus.FOUND, [1500])


def test_a_condition_looks_at_four_megabytes_and_says_where_to_go_on(store: Store) -> None:
    for _ in range(3):
        store.send({"n": "1"}, body=b"x" * MIB, times=3)

    result = store.pull("n = 2", SQL92)

    # The fourth goes beyond, and is the last.
    assert (result.status, result.next_offset) == (PullStatus.NO_MATCHED_MSG, 4)


def test_a_read_that_has_enough_looks_no_further(store: Store) -> None:
    store.send({"n": "1"}, times=1000)

    result = store.pull("n = 1", SQL92, messages_max=10)

    assert len(result.block) == 10
    assert result.next_offset == 10


def test_one_receive_passes_over_a_thousand_messages_of_all_queues_together(store: Store) -> None:
    for queue in (0, 1):
        store.send({"n": "1"}, queue=queue, times=1500)
        store.send({"n": "2"}, queue=queue)

    first = store.receive("n = 2", SQL92)
    passed = sum(store.committed().values())
    more = [store.receive("n = 2", SQL92) for _ in range(3)]

    assert (offsets_of(first), first.has_more, passed) == ([], True, 1024)
    assert sorted(offset for result in more for offset in offsets_of(result)) == [1500, 1500]
    assert store.receive("n = 2", SQL92) == ReceiveResult(leases=())


def test_tags_are_looked_for_much_further(store: Store) -> None:
    for _ in range(3):
        store.send({"TAGS": "A"}, times=50_000)
    store.send({"TAGS": "B"})

    first, second = store.receive("B", TAG), store.receive("B", TAG)

    assert (offsets_of(first), first.has_more) == ([], True)
    assert store.pull("B", TAG).next_offset == 16_384
    assert offsets_of(second) == [150_000]


def test_a_receive_without_a_filter_never_has_more_to_look_at(store: Store) -> None:
    store.send({}, times=3)

    assert not store.receive("*", TAG, messages_max=2).has_more


# --- what goes wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "kind"), [("n >", SQL92), ("A||", TAG), ("*", SQL92)])
def test_a_bad_filter_is_refused_and_nothing_is_handed_out(
    store: Store, text: str, kind: FilterType
) -> None:
    store.send({"n": "1"})

    with pytest.raises(InvalidFilter):
        store.receive(text, kind)
    for start in (0, 1, 99):
        with pytest.raises(InvalidFilter):
            store.pull(text, kind, start)

    assert store.committed() == {}


def test_a_cold_record_is_waited_for_in_a_thread(store: Store) -> None:
    store.send({"n": "1"}, {"n": "2"})
    log, queue = store.broker.log, store.broker.queues.queue("t", 0)
    wanted = compile_filter("n = 2", SQL92)
    store.disk.make_cold()

    with pytest.raises(ColdRead) as cold:
        choose(log, queue, 0, wanted=wanted, messages_max=9, bytes_max=9, wait=False)
    cold.value.warm()
    found = choose(log, queue, 0, wanted=wanted, messages_max=9, bytes_max=9, wait=False)

    assert found.offsets.tolist() == [1]


def test_a_record_damaged_on_the_disk_is_said_to_be_and_breaks_nothing(store: Store) -> None:
    """A bit of every byte of a record: it is damage, or a message that is read all the same."""
    store.send({"TAGS": "A", "n": "1"}, {"TAGS": "B", "n": "2"}, body=b"body")
    entries = store.broker.queues.queue("t", 0).read(0, 2)
    start, size = int(entries["log_offset"][0]), int(entries["size_bytes"][0])
    bodies = frames = 0

    for position in range(start, start + size):
        one = Store()
        one.send({"TAGS": "A", "n": "1"}, {"TAGS": "B", "n": "2"}, body=b"body")
        one.disk.flip(SEGMENT, position, 1 << position % 8)
        result = one.pull("n = 2", SQL92)
        found = offsets_of(result)
        bodies += result.unreadable == 1
        frames += result.unreadable == 2
        # A frame that was written by this very process is not proven again, only its bodies are.
        assert found == ([] if result.unreadable == 2 else [1]) or not result.unreadable
        assert result.next_offset == 2

    assert offsets_of(store.pull("n = 2", SQL92)) == [1]
    assert bodies == len(b"body")
    assert frames > 30
