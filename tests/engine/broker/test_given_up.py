"""Given-up messages: seen with what is known of them, and sent after all, once."""

from dataclasses import replace

import pytest

from apps.engine.broker.transactionstate import TransactionState
from apps.engine.codec.layout import GIVEN_UP_TOPIC
from apps.engine.codec.properties import TRANSACTION_CHECK_TIMES
from apps.engine.errors import (
    InvalidArgument,
    StoreFull,
    TransactionDecided,
    UnknownTopic,
    UnknownTransaction,
)
from apps.engine.limits import PROPERTIES_BYTES_MAX
from apps.engine.testing.manualclock import ManualClock
from apps.engine.transactiontypes import GivenUpMessage, GivenUpPage, Outcome, SentAfterAll
from tests.engine.broker.sendbench import CONFIG, SendBench, batch_of, record


@pytest.fixture
def bench() -> SendBench:
    return SendBench()


def given_up(
    bench: SendBench, body: bytes = b"lost", *, queue: int = 1, checks: int = 0, **properties: str
) -> str:
    """Begin a transaction, have it checked so often, and give it up; return its id."""
    begun = bench.broker.transactions.begin(
        batch_of([record("t", queue, body, **properties)], "t", queue),
        producer_group="g",
        check_immunity_ms=0,
    )
    for _ in range(checks):
        bench.broker.checks.receive("g", client_id="c", checks_max=1, wait=True)
        bench.clock.advance(CONFIG.transaction_check_ms)
    half = bench.broker.transactions.pending(
        *bench.broker.transactions.ids.parse(begun.transaction_id)
    )
    assert bench.broker.checks.give_up(half, wait=True)
    bench.sync()
    return begun.transaction_id


def page(bench: SendBench, before: int | None = None, most: int = 10) -> GivenUpPage:
    return bench.broker.givenup.page(before=before, messages_max=most, wait=True)


def send(bench: SendBench, offset: int, transaction_id: str, by: str = "ann") -> SentAfterAll:
    return bench.broker.givenup.send(offset, transaction_id=transaction_id, by=by, wait=True)


def test_nothing_given_up_is_an_empty_page(bench: SendBench) -> None:
    assert page(bench) == GivenUpPage(messages=())


def test_operators_see_where_it_was_for_its_checks_and_its_times(bench: SendBench) -> None:
    transaction_id = given_up(bench, checks=2, KEYS="k", TAGS="a", UNIQ_KEY="id")

    (found,) = page(bench).messages

    assert found == GivenUpMessage(
        given_up_offset=0,
        transaction_id=transaction_id,
        half_offset=0,
        topic="t",
        queue=1,
        message_id="id",
        producer_group="g",
        born_ms=found.born_ms,
        given_up_ms=bench.clock.wall_ms(),
        checks=2,
        size_bytes=found.size_bytes,
        keys="k",
        tag="a",
    )


def test_pages_go_back_from_the_newest(bench: SendBench) -> None:
    for _ in range(5):
        given_up(bench)

    first = page(bench, most=2)
    second = page(bench, first.before, most=2)
    last = page(bench, second.before, most=2)

    offsets = [[one.given_up_offset for one in found.messages] for found in (first, second, last)]
    assert offsets == [[4, 3], [2, 1], [0]]
    assert last.before is None


def test_one_sent_after_all_is_the_message_its_commit_would_have_made(bench: SendBench) -> None:
    transaction_id = given_up(bench, checks=1, KEYS="k", TAGS="a", UNIQ_KEY="id", colour="red")

    sent = send(bench, 0, transaction_id)

    (found,) = bench.read("t", 1)
    assert sent == SentAfterAll(topic="t", queue=1, queue_offset=0)
    assert (found.body, found.sys_flag, found.is_intact) == (b"lost", 8, True)
    assert found.properties == {
        "TAGS": "a",
        "UNIQ_KEY": "id",
        "KEYS": "k",
        "colour": "red",
        "PGROUP": "g",
        "TRAN_MSG": "true",
        "__transactionId__": transaction_id,
    }
    (listed,) = page(bench).messages
    assert (listed.sent_by, listed.sent_queue, listed.sent_offset) == ("ann", 1, 0)
    assert listed.sent_ms == bench.clock.wall_ms()


def test_one_is_sent_once_whoever_asks_and_whatever_was_restarted(bench: SendBench) -> None:
    transaction_id = given_up(bench)
    first = send(bench, 0, transaction_id)

    answers = [send(bench, 0, transaction_id, by="bob")]
    for start_again in (bench.kill_and_open, bench.stop_and_open, bench.cut_and_open):
        start_again()
        answers.append(send(bench, 0, transaction_id))

    assert first == SentAfterAll(topic="t", queue=1, queue_offset=0)
    assert answers == [SentAfterAll(topic="t", queue=1, queue_offset=0, is_repeat=True)] * 4
    assert bench.bodies("t", 1) == [b"lost"]
    (listed,) = page(bench).messages
    assert listed.sent_by == "ann"


def test_the_transaction_stays_given_up(bench: SendBench) -> None:
    transaction_id = given_up(bench)
    send(bench, 0, transaction_id)

    with pytest.raises(TransactionDecided, match="given up"):
        bench.broker.transactions.end(transaction_id, Outcome.COMMITTED, wait=True)


@pytest.mark.parametrize("offset", [-1, 1, 1 << 60])
def test_no_other_place_and_no_other_transaction_is_taken_for_it(
    bench: SendBench, offset: int
) -> None:
    transaction_id = given_up(bench)

    with pytest.raises(UnknownTransaction, match="no given-up message is there"):
        send(bench, offset, transaction_id)
    with pytest.raises(UnknownTransaction, match="of another transaction"):
        send(bench, 0, "1.1-00000000")
    assert bench.bodies("t", 1) == []


def test_without_its_topic_it_is_refused_and_may_be_sent_later(bench: SendBench) -> None:
    transaction_id = given_up(bench)
    bench.publish({"u": 1})

    with pytest.raises(UnknownTopic):
        send(bench, 0, transaction_id)
    bench.publish({"t": 1, "u": 1})

    # The queue it was for is gone.
    assert send(bench, 0, transaction_id) == SentAfterAll(topic="t", queue=0, queue_offset=0)


def test_a_full_disk_refuses_it_with_nothing_changed(bench: SendBench) -> None:
    transaction_id = given_up(bench)
    capacity_bytes, bench.disk.capacity_bytes = bench.disk.capacity_bytes, 0

    with pytest.raises(StoreFull):
        send(bench, 0, transaction_id)
    bench.disk.capacity_bytes = capacity_bytes

    assert not send(bench, 0, transaction_id).is_repeat


def test_a_message_with_no_room_for_its_checks_is_given_up_without_them() -> None:
    bench = SendBench(replace(CONFIG, segment_bytes=1 << 20, batch_bytes_max=1 << 18))
    begun = bench.broker.transactions.begin(
        batch_of([record("t", 0, b"x", long="")], "t", 0), producer_group="g", check_immunity_ms=0
    )
    half = bench.broker.transactions.pending(
        *bench.broker.transactions.ids.parse(begun.transaction_id)
    )
    added = bench.broker.transactions.record(half, wait=True)
    room = PROPERTIES_BYTES_MAX - len(
        "\x02".join("\x01".join(item) for item in added.properties.items()) + "\x02"
    )
    bench.broker.checks.give_up(half, wait=True)
    transaction_id = given_up(bench, long="y" * (room - 8))

    newest, _ = page(bench).messages

    assert (newest.checks, newest.transaction_id) == (None, transaction_id)
    assert TRANSACTION_CHECK_TIMES not in bench.read(GIVEN_UP_TOPIC)[1].properties


@pytest.mark.parametrize("most", [0, 1_001])
def test_a_page_that_is_none_is_refused(bench: SendBench, most: int) -> None:
    with pytest.raises(InvalidArgument):
        page(bench, most=most)


def test_a_checkpoint_from_before_such_were_sent_is_taken_up() -> None:
    state = TransactionState(ManualClock())

    state.load({"pending": [], "decided": []})

    assert state.sent == {}
