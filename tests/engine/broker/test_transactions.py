"""Transactions: a message is visible if and only if it was committed, whoever asks how often."""

from dataclasses import replace

import pytest

from apps.engine.broker.owntopics import is_own
from apps.engine.broker.transactionids import TransactionIds
from apps.engine.codec.batch import starts_of
from apps.engine.codec.layout import GIVEN_UP_TOPIC, HALF_OP_TOPIC, HALF_TOPIC
from apps.engine.codec.record import Record, decode_record
from apps.engine.codec.tags import tag_hash
from apps.engine.errors import (
    BatchTooLarge,
    InvalidArgument,
    InvalidName,
    MalformedBatch,
    MessageTooLarge,
    NotPermitted,
    Overloaded,
    StoreFull,
    TransactionDecided,
    UnknownQueue,
    UnknownTopic,
    UnknownTransaction,
)
from apps.engine.limits import MIB
from apps.engine.transactiontypes import Begun, Ended, Outcome
from apps.engine.types import PullRequest, ReceiveRequest
from tests.engine.broker.sendbench import CONFIG, SendBench, batch_of, record

COMMITTED, ROLLED_BACK = Outcome.COMMITTED, Outcome.ROLLED_BACK


@pytest.fixture
def bench() -> SendBench:
    return SendBench()


def begin(
    bench: SendBench,
    body: bytes = b"half",
    *,
    topic: str = "t",
    queue: int = 0,
    number: int | None = None,
    **properties: str,
) -> Begun:
    """Begin a transaction of group g with one message."""
    return bench.broker.transactions.begin(
        batch_of([record(topic, queue, body, number=number, **properties)], topic, queue),
        producer_group="g",
        check_immunity_ms=None,
    )


def end(bench: SendBench, begun: Begun, outcome: Outcome, by: str = "") -> Ended:
    return bench.broker.transactions.end(begun.transaction_id, outcome, by=by, wait=True)


def hidden(bench: SendBench, topic: str) -> list[Record]:
    """Return what lies in one of the topics that nobody may read."""
    queue = bench.broker.queues.queue(topic, 0)
    if not queue.end:
        return []
    entries = queue.read(0, queue.end)
    block = bench.broker.log.read_records(
        entries["log_offset"].astype("i8"), entries["size_bytes"].astype("i4"), wait=True
    )
    starts = starts_of(entries["size_bytes"].astype("i4")).tolist()
    return [decode_record(block, start) for start in starts]


def test_a_half_message_is_seen_by_nobody(bench: SendBench) -> None:
    begin(bench)
    bench.sync()

    assert bench.bodies() == []
    for topic in (HALF_TOPIC, HALF_OP_TOPIC):
        with pytest.raises(UnknownTopic):
            bench.broker.pull(PullRequest(topic=topic, queue=0, queue_offset=0))
        with pytest.raises(UnknownTopic):
            bench.broker.receive(ReceiveRequest(group="g", topics=(topic,)))
        with pytest.raises(UnknownTopic):
            bench.broker.appender.check([batch_of([record(topic)], topic)])
        assert is_own(topic)


def test_a_half_message_is_rocketmq_s(bench: SendBench) -> None:
    begun = begin(bench, topic="t", queue=1, UNIQ_KEY="id", KEYS="k", TAGS="a", colour="red")

    (half,) = hidden(bench, HALF_TOPIC)

    assert begun.half_offset == half.queue_offset == 0
    assert (half.topic, half.queue, half.sys_flag, half.body) == (HALF_TOPIC, 0, 0, b"half")
    assert half.properties == {
        "TAGS": "a",
        "UNIQ_KEY": "id",
        "KEYS": "k",
        "colour": "red",
        "REAL_TOPIC": "t",
        "REAL_QID": "1",
        "PGROUP": "g",
        "TRAN_MSG": "true",
        "__transactionId__": begun.transaction_id,
    }


def test_a_committed_message_is_in_its_queue_with_all_it_had(bench: SendBench) -> None:
    begun = begin(bench, queue=1, UNIQ_KEY="id", TAGS="a", colour="red")

    ended = end(bench, begun, COMMITTED)

    (found,) = bench.read("t", 1)
    (half,) = hidden(bench, HALF_TOPIC)
    assert (ended.topic, ended.queue, ended.queue_offset, ended.is_repeat) == ("t", 1, 0, False)
    assert (found.body, found.sys_flag, found.prepared_offset) == (b"half", 8, half.log_offset)
    assert found.properties == {
        "TAGS": "a",
        "UNIQ_KEY": "id",
        "colour": "red",
        "PGROUP": "g",
        "TRAN_MSG": "true",
        "__transactionId__": begun.transaction_id,
    }
    assert found.is_intact
    queue = bench.broker.queues.queue("t", 1)
    assert queue.read(0, 1)["tag_hash"].tolist() == [tag_hash("a")]


def test_every_decision_has_its_op_record(bench: SendBench) -> None:
    first, second = begin(bench), begin(bench)

    end(bench, second, ROLLED_BACK)
    end(bench, first, COMMITTED)

    ops = hidden(bench, HALF_OP_TOPIC)
    assert [(op.body, op.properties) for op in ops] == [
        (b"1", {"TAGS": "d"}),
        (b"0", {"TAGS": "d"}),
    ]


def test_messages_are_in_order_of_their_commits(bench: SendBench) -> None:
    begun = [begin(bench, b"%d" % number) for number in range(3)]

    for number in (2, 0):
        end(bench, begun[number], COMMITTED)
    end(bench, begun[1], ROLLED_BACK)

    assert bench.bodies() == [b"2", b"0"]


def test_the_same_decision_again_changes_nothing(bench: SendBench) -> None:
    kept, dropped = begin(bench, b"kept"), begin(bench, b"dropped")
    first = end(bench, kept, COMMITTED)
    end(bench, dropped, ROLLED_BACK)
    written = bench.broker.log.written_offset

    again = end(bench, kept, COMMITTED)
    also = end(bench, dropped, ROLLED_BACK)

    assert again == replace(first, is_repeat=True)
    assert (also.outcome, also.is_repeat, also.queue) == (ROLLED_BACK, True, None)
    assert bench.broker.log.written_offset == written
    assert bench.bodies() == [b"kept"]


def test_a_decision_is_for_good(bench: SendBench) -> None:
    kept, dropped = begin(bench, b"kept"), begin(bench, b"dropped")
    end(bench, kept, COMMITTED)
    end(bench, dropped, ROLLED_BACK)

    with pytest.raises(TransactionDecided, match="committed"):
        end(bench, kept, ROLLED_BACK)
    with pytest.raises(TransactionDecided, match="rolled back"):
        end(bench, dropped, COMMITTED)

    assert bench.bodies() == [b"kept"]


@pytest.mark.parametrize("how", ["kill_and_open", "stop_and_open"])
def test_late_duplicates_of_a_decision_change_nothing_after_a_restart(
    bench: SendBench, how: str
) -> None:
    kept, dropped, open_one = begin(bench, b"kept"), begin(bench), begin(bench, b"open")
    first = end(bench, kept, COMMITTED)
    bench.broker.checkpoint()
    end(bench, dropped, ROLLED_BACK)

    getattr(bench, how)()

    assert end(bench, kept, COMMITTED) == replace(first, is_repeat=True)
    with pytest.raises(TransactionDecided):
        end(bench, dropped, COMMITTED)
    assert bench.bodies() == [b"kept"]
    assert end(bench, open_one, COMMITTED).queue_offset == 1
    assert bench.bodies() == [b"kept", b"open"]


def test_a_transaction_that_a_power_cut_took_back_is_unknown(bench: SendBench) -> None:
    lost = begin(bench, b"lost")

    bench.cut_and_open()
    other = begin(bench, b"other")

    assert other.half_offset == lost.half_offset
    for outcome in (COMMITTED, ROLLED_BACK):
        with pytest.raises(UnknownTransaction):
            end(bench, lost, outcome)
    end(bench, other, COMMITTED)
    with pytest.raises(UnknownTransaction):
        end(bench, lost, COMMITTED)
    assert bench.bodies() == [b"other"]


@pytest.mark.parametrize(
    "text",
    ["", "x", "0.1", "0.1-00000000", "1.1-{check}", "0.2-{check}", "00.1-{check}", "0.1-{check} "],
)
def test_an_id_that_was_not_issued_is_unknown(bench: SendBench, text: str) -> None:
    begun = begin(bench)
    check = begun.transaction_id.rpartition("-")[2]

    with pytest.raises(UnknownTransaction):
        bench.broker.transactions.end(text.format(check=check), COMMITTED, wait=True)

    assert bench.bodies() == []


def test_an_id_of_another_store_is_unknown(bench: SendBench) -> None:
    begin(bench)
    foreign = TransactionIds("another store").text(0, bench.broker.log.epoch)

    with pytest.raises(UnknownTransaction):
        bench.broker.transactions.end(foreign, COMMITTED, wait=True)


def test_nobody_may_give_up_by_hand(bench: SendBench) -> None:
    with pytest.raises(InvalidArgument):
        end(bench, begin(bench), Outcome.GIVEN_UP)


def test_delays_of_a_half_message_are_dropped(bench: SendBench) -> None:
    begun = begin(bench, DELAY="3", TIMER_DELAY_MS="1", TIMER_DELAY_SEC="1", TIMER_DELIVER_MS="1")

    end(bench, begun, COMMITTED)

    (found,) = bench.read()
    assert not {"DELAY", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS"} & set(
        found.properties
    )


def test_a_message_whose_topic_was_deleted_stays_undecided(bench: SendBench) -> None:
    begun = begin(bench, b"late")
    bench.publish({"u": 1})

    with pytest.raises(UnknownTopic):
        end(bench, begun, COMMITTED)

    assert bench.broker.checks.status().pending == 1
    bench.publish()
    assert end(bench, begun, COMMITTED).queue_offset == 0
    assert bench.bodies() == [b"late"]


def test_a_message_whose_topic_was_deleted_may_be_rolled_back(bench: SendBench) -> None:
    begun = begin(bench)
    bench.publish({"u": 1})

    assert not end(bench, begun, ROLLED_BACK).is_repeat


def test_a_message_whose_queue_is_gone_goes_to_another(bench: SendBench) -> None:
    begun = begin(bench, b"moved", queue=1)
    bench.publish({"t": 1, "u": 1})

    ended = end(bench, begun, COMMITTED)

    assert (ended.queue, ended.queue_offset) == (0, 0)
    assert [one.queue for one in bench.read()] == [0]


def test_a_numbered_half_message_is_begun_once(bench: SendBench) -> None:
    first = begin(bench, b"once", number=1)
    bench.clock.advance(500)
    bench.kill_and_open()

    again = begin(bench, b"once", number=1)

    assert again == first
    assert len(hidden(bench, HALF_TOPIC)) == 1
    end(bench, again, COMMITTED)
    assert begin(bench, b"once", number=1) == first
    # Half messages are numbered apart from messages, and topics apart from each other.
    assert not bench.send(1).repeats
    assert begin(bench, topic="u", number=1) != first


def test_what_cannot_be_a_half_message_is_refused(bench: SendBench) -> None:
    begin_of = bench.broker.transactions.begin
    one = batch_of([record()])
    with pytest.raises(MalformedBatch, match="one message"):
        begin_of(batch_of([record(), record()]), producer_group="g", check_immunity_ms=None)
    with pytest.raises(InvalidName):
        begin_of(one, producer_group="no group", check_immunity_ms=None)
    for immunity_ms in (-1, bench.config.transaction_ms_max + 1):
        with pytest.raises(InvalidArgument):
            begin_of(one, producer_group="g", check_immunity_ms=immunity_ms)
    with pytest.raises(UnknownTopic):
        begin(bench, topic="none")
    with pytest.raises(UnknownQueue):
        begin(bench, queue=2)
    with pytest.raises(NotPermitted):
        begin(bench, topic="%RETRY%g")
    with pytest.raises(MessageTooLarge):
        begin(bench, bytes(bench.config.body_bytes_max + 1))
    with pytest.raises(BatchTooLarge):
        begin(bench, bytes(bench.config.batch_bytes_max + 1))

    assert bench.broker.queues.queue(HALF_TOPIC, 0).end == 0


def test_properties_that_do_not_fit_with_those_of_a_transaction_are_refused() -> None:
    bench = SendBench(replace(CONFIG, segment_bytes=4 * MIB, batch_bytes_max=2 * MIB))
    filling = "x" * (bench.config.properties_bytes_max - 20)

    with pytest.raises(MessageTooLarge, match="what the engine adds"):
        begin(bench, filling=filling)

    assert bench.broker.queues.queue(HALF_TOPIC, 0).end == 0


def test_undecided_transactions_are_bounded(
    bench: SendBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.engine.broker.transactions.PENDING_TRANSACTIONS_MAX", 2)
    first = begin(bench)
    begin(bench)

    with pytest.raises(Overloaded):
        begin(bench)

    end(bench, first, ROLLED_BACK)
    begin(bench)


def test_a_full_disk_keeps_a_transaction_undecided_but_can_be_rolled_back() -> None:
    bench = SendBench()
    begun, other = begin(bench), begin(bench)
    bench.stop_and_open()
    bench.config = replace(CONFIG, reserve_bytes=1 << 60)
    bench.stop_and_open()

    with pytest.raises(StoreFull):
        begin(bench)
    with pytest.raises(StoreFull):
        end(bench, begun, COMMITTED)

    assert bench.broker.checks.status().pending == 2
    assert end(bench, other, ROLLED_BACK).outcome is ROLLED_BACK


def test_old_decisions_are_forgotten(bench: SendBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.engine.broker.transactionstate._REMEMBERED", 2)
    begun = [begin(bench) for _ in range(3)]
    for one in begun:
        end(bench, one, COMMITTED)

    with pytest.raises(UnknownTransaction):
        end(bench, begun[0], COMMITTED)

    assert end(bench, begun[1], COMMITTED).is_repeat
    assert len(bench.bodies()) == 3


def test_a_rebuilt_index_is_the_same(bench: SendBench) -> None:
    for number in range(4):
        begun = begin(bench, b"%d" % number, TAGS="a", queue=number % 2)
        if number:
            end(bench, begun, COMMITTED if number % 2 else ROLLED_BACK)
    topics = [(HALF_TOPIC, 0), (HALF_OP_TOPIC, 0), ("t", 0), ("t", 1), (GIVEN_UP_TOPIC, 0)]

    def entries() -> list[bytes]:
        queues = [bench.broker.queues.queue(*place) for place in topics]
        return [queue.read(0, queue.end).tobytes() for queue in queues if queue.end]

    before = entries()
    bench.kill_and_open()

    assert len(before) == 3
    assert bench.broker.dispatched_records > 0
    assert entries() == before
