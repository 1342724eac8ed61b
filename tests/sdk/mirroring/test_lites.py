"""What a mirror reads of lite topics: each in order, from where its group is, and new ones."""

from collections.abc import Iterator
from typing import Any

import pytest
from mqclient import Forbidden, OffsetOutOfRange
from mqclient.clock import SystemClock
from mqclient.mirroring.lites import LiteSource
from mqclient.mirroring.pace import Pace
from mqclient.mirroring.settings import MirrorSettings
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import Endpoint
from mqclient.protocol.plans import Patience
from mqclient.transport.blocking import Pool
from mqclient.wire.records import Message

from tests.sdk.fake_broker import FakeBroker

ANN, BOB, COY = (f"%LITE%inbox|{name}" for name in ("ann", "bob", "coy"))


class Waits:
    """In the place of a mirror's sign to stop: notes how long it was waited for, and waits not."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return False


class ClockOfLooks:
    """A clock by which the broker takes 4 s to list lite topics, and no time for all else."""

    def __init__(self, inbox: FakeBroker) -> None:
        self._inbox = inbox

    def steady_s(self) -> float:
        return 4.0 * sum("/lite-topics" in request for request in self._inbox.requests)

    def wall_ms(self) -> int:
        return int(self.steady_s() * 1000)


@pytest.fixture
def inbox(broker: FakeBroker) -> FakeBroker:
    broker.topics |= {"inbox": 1, ANN: 1, BOB: 1, COY: 1}
    return broker


@pytest.fixture
def pool(inbox: FakeBroker) -> Iterator[Pool]:
    pool = Pool(Endpoint.of(inbox.url, None), clock=SystemClock())
    yield pool
    pool.close()


def source(
    inbox: FakeBroker, pool: Pool, *, stop: Waits | None = None, **settings: Any
) -> LiteSource:
    """Return a source that has begun, of a mirror that was started anew."""
    clock = SystemClock()
    begun = LiteSource(
        pool,
        Calls(Endpoint.of(inbox.url, None)),
        MirrorSettings(topic="inbox", topic_there="inbox", group="g", **settings),
        Pace(clock=clock, rate=None, patience_s=1.0, stop=stop or Waits()),  # type: ignore[arg-type]
        patience=Patience(clock=clock, backoff=Backoff(), timeout_s=10.0),
    )
    begun.begin()
    return begun


def texts(messages: list[Message] | None) -> list[str]:
    assert messages is not None
    return [message.body.decode() for message in messages]


def everything(begun: LiteSource) -> list[list[str]]:
    """Take batches to the end, each committed."""
    batches = []
    while (messages := begun.take()) is not None:
        begun.commit()
        batches.append(texts(messages))
    return batches


def test_lite_topics_are_read_in_turns_and_each_in_its_order(inbox: FakeBroker, pool: Pool) -> None:
    inbox.put(ANN, 0, *(b"a%d" % number for number in range(5)))
    inbox.put(BOB, 0, b"b0")
    inbox.put(COY, 0, b"c0", b"c1", b"c2")

    batches = everything(source(inbox, pool, once=True, batch=4, in_flight=2))

    assert batches == [["a0", "a1", "b0", "c0"], ["a2", "a3", "c1", "c2"], ["a4"]]
    assert [inbox.committed["g", topic, 0] for topic in (ANN, BOB, COY)] == [5, 1, 3]


def test_each_lite_topic_is_a_lane(inbox: FakeBroker, pool: Pool) -> None:
    inbox.put(ANN, 0, b"a0")
    begun = source(inbox, pool)

    (message,) = begun.take() or ()

    assert begun.lane_of(message) == ANN


def test_what_was_not_committed_comes_to_the_next_run(inbox: FakeBroker, pool: Pool) -> None:
    inbox.put(ANN, 0, b"a0", b"a1")
    begun = source(inbox, pool, batch=1)
    first = begun.take()
    begun.commit()
    begun.take()

    again = everything(source(inbox, pool, once=True))

    assert (texts(first), again) == (["a0"], [["a1"]])


def test_what_comes_while_a_mirror_runs_is_read_and_only_that(
    inbox: FakeBroker, pool: Pool
) -> None:
    inbox.put(ANN, 0, b"a0")
    inbox.put(BOB, 0, b"b0")
    stop = Waits()
    begun = source(inbox, pool, stop=stop)
    before = begun.take()
    begun.commit()
    inbox.put(BOB, 0, b"b1")
    inbox.put(COY, 0, b"c0")
    inbox.requests.clear()

    after = begun.take()

    assert (texts(before), texts(after)) == (["a0", "b0"], ["b1", "c0"])
    assert not any("ann" in request for request in inbox.requests)
    assert len(stop.waited) == 1


def test_looks_leave_the_broker_nine_tenths_of_the_time(inbox: FakeBroker, pool: Pool) -> None:
    inbox.put(ANN, 0, b"a0")
    stop = Waits()
    begun = source(inbox, pool, stop=stop)
    begun._patience.clock = ClockOfLooks(inbox)

    for _ in range(3):
        begun.take()

    # The first look was by another clock.
    assert stop.waited == [0.5, 36.0]


@pytest.mark.parametrize(("start", "found"), [("latest", []), (2_000, []), (500, ["a0"])])
def test_a_mirror_begins_as_it_is_told_in_what_is_there_and_reads_all_that_comes(
    inbox: FakeBroker, pool: Pool, start: Any, found: list[str]
) -> None:
    inbox.put(ANN, 0, b"a0")
    first = everything(source(inbox, pool, once=True, start=start))
    inbox.put(ANN, 0, b"a1")
    inbox.put(BOB, 0, b"b0")

    second = everything(source(inbox, pool, once=True, start="latest"))

    assert [text for batch in first for text in batch] == found
    assert second == [["a1", "b0"]]


def test_a_mirror_that_began_before_there_was_a_lite_topic_reads_all_of_the_first(
    inbox: FakeBroker, pool: Pool
) -> None:
    everything(source(inbox, pool, once=True, start="latest"))
    inbox.put(ANN, 0, b"a0")

    assert everything(source(inbox, pool, once=True, start="latest")) == [["a0"]]


def test_a_mirror_that_was_killed_as_it_began_begins_again(inbox: FakeBroker, pool: Pool) -> None:
    inbox.put(ANN, 0, b"a0")
    inbox.put(BOB, 0, b"b0")
    # Where the group is in the parent's own queue is said last, and is not said.
    fault = inbox.fault(
        "offsets:begin", "status", status=403, code="forbidden", retriable=False, skip=1
    )
    with pytest.raises(Forbidden):
        source(inbox, pool, once=True, start="latest")
    inbox.put(BOB, 0, b"b1")

    again = everything(source(inbox, pool, once=True, start="latest"))

    assert fault.fired_count == 1
    assert again == [["b1"]]


def test_only_what_is_named_is_read(inbox: FakeBroker, pool: Pool) -> None:
    for topic in (ANN, BOB, COY):
        inbox.put(topic, 0, topic[-3:].encode())

    batches = everything(source(inbox, pool, once=True, lites=("ann", "coy", "none")))

    assert batches == [["ann", "coy"]]


def test_one_that_is_gone_before_it_is_committed_takes_no_other_position_along(
    inbox: FakeBroker, pool: Pool
) -> None:
    inbox.put(ANN, 0, b"a0")
    inbox.put(BOB, 0, b"b0")
    begun = source(inbox, pool, once=True)
    begun.take()
    fault = inbox.fault(
        "offsets:commit", "status", times=2,
        status=400, code=OffsetOutOfRange.code, retriable=False,
    )  # fmt: skip

    begun.commit()

    # All of them, then the first alone.
    assert fault.fired_count == 2
    assert inbox.committed["g", ANN, 0] == 0
    assert inbox.committed["g", BOB, 0] == 1


def test_one_that_comes_again_is_read_from_where_it_begins(inbox: FakeBroker, pool: Pool) -> None:
    inbox.put(ANN, 0, b"a0", b"a1", b"a2")
    begun = source(inbox, pool)
    begun.take()
    begun.commit()
    # It is gone, the group's position with it, and one of its name has fewer messages.
    inbox.queues[ANN, 0].clear()
    del inbox.committed["g", ANN, 0]
    inbox.put(ANN, 0, b"new 0", b"new 1")

    assert texts(begun.take()) == ["new 0", "new 1"]


def test_one_that_is_gone_while_it_is_read_holds_nothing_up(inbox: FakeBroker, pool: Pool) -> None:
    inbox.put(ANN, 0, b"a0", b"a1")
    inbox.put(BOB, 0, b"b0", b"b1")
    begun = source(inbox, pool, once=True, batch=2, in_flight=2)
    first = begun.take()
    inbox.queues[ANN, 0].clear()

    rest = everything(begun)

    assert texts(first) == ["a0", "b0"]
    assert [text for batch in rest for text in batch] == ["b1"]
