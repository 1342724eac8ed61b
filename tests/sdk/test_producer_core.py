"""The producer's core without sockets: any order of outcomes, and what must hold in all of them."""

import random
import threading
from functools import partial

import pytest
from mqclient.errors import ConnectionLost, MqError, Overloaded
from mqclient.producing.core import ProducerCore
from mqclient.producing.drafting import Drafting, outgoing
from mqclient.producing.lanes import Lane
from mqclient.producing.parcels import Parcel
from mqclient.producing.settings import ProducerSettings
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import Endpoint
from mqclient.protocol.work import Job
from mqclient.values import BatchReceipt, TopicInfo

from tests.sdk.fake_broker import body_of, split_batch

QUEUES = 3


class ManualClock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def steady_s(self) -> float:
        return self.now_s


class TwoInFlight(ProducerCore):
    """Wrong on purpose: lets a queue's next batch go while the one before is under way."""

    def _open(self, lane: Lane, now_s: float) -> float | None:
        timeout_s = super()._open(lane, now_s)
        lane.is_busy = False
        self._agenda.schedule(lane)
        return timeout_s


class Run:
    """One random life of a producer against a broker that fails at random."""

    def __init__(self, kind: type[ProducerCore], seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        settings = ProducerSettings(
            batch_messages_max=3, linger_ms=1.0, in_flight_max=4, timeout_s=1e6
        )
        calls = Calls(Endpoint.of("http://broker"))
        self.core = kind(settings, calls, clock=self.clock, rng=self.rng)
        self.drafting = Drafting(settings, clock=self.clock, lock=self.core.lock)
        self.log: dict[int, list[bytes]] = {queue: [] for queue in range(QUEUES)}
        self.parcels: list[Parcel] = []
        self.jobs: list[Job] = []
        self.failures = 0
        self.alone = 0

    def put(self, number: int) -> None:
        key = f"key-{self.rng.randrange(4)}"
        message = outgoing("orders", f"{key} {number:04}", sharding_key=key)
        parcel = self.drafting.parcel(message)
        self.parcels.append(parcel)
        if self.rng.random() < 0.5:
            job = self.core.put_alone(parcel)
            if job is not None:
                self.alone += 1
                self.jobs.append(job)
                return
        assert self.core.put(parcel, is_urgent=self.rng.random() < 0.3, when_room=lambda: None)

    def finish(self, job: Job) -> None:
        if job.call.is_repeatable:
            job.done(TopicInfo(topic="orders", type="MIXED", queue_count=QUEUES), None)
            return
        error: MqError | None = None
        outcome = self.rng.randrange(4)
        if outcome == 0:
            error = Overloaded("busy")
        elif outcome == 1:
            error = ConnectionLost("lost before")
        elif outcome == 2:
            error = ConnectionLost("lost after")
        receipt = None
        if outcome >= 2:
            receipt = self.store(job)
        self.failures += error is not None
        job.done(None if error else receipt, error)

    def store(self, job: Job) -> BatchReceipt:
        head, *body = job.call.buffers
        queue = int(head.split(b"queue=")[1].split(b"&")[0])
        bodies = [body_of(record) for record in split_batch(b"".join(body))]
        first = len(self.log[queue])
        self.log[queue] += bodies
        return BatchReceipt(count=len(bodies), queue_offset=first, store_time_ms=1)

    def go(self, messages: int) -> None:
        number = 0
        while number < messages or not all(parcel.is_done for parcel in self.parcels):
            if number < messages and self.rng.random() < 0.6:
                self.put(number)
                number += 1
            job = self.core.take()
            if job is not None:
                self.jobs.append(job)
            if self.jobs and self.rng.random() < 0.5:
                self.finish(self.jobs.pop(self.rng.randrange(len(self.jobs))))
            self.clock.now_s += self.rng.random() * 0.01

    def is_ordered(self) -> bool:
        for bodies in self.log.values():
            first_seen = list(dict.fromkeys(bodies))
            keys = {body.split()[0] for body in first_seen}
            for key in keys:
                of_key = [body for body in first_seen if body.split()[0] == key]
                if of_key != sorted(of_key):
                    return False
        return True


@pytest.mark.parametrize("seed", range(30))
def test_no_order_of_failures_changes_the_order_of_a_key(seed: int) -> None:
    run = Run(ProducerCore, seed)

    run.go(60)

    assert run.failures > 0, f"seed {seed} injected nothing"
    assert run.is_ordered(), f"seed {seed}"
    assert all(parcel.error is None for parcel in run.parcels)
    assert sorted({body for bodies in run.log.values() for body in bodies}) == sorted(
        parcel_body for parcel_body in _sent_bodies(run)
    )


def _sent_bodies(run: Run) -> set[bytes]:
    stored = {body for bodies in run.log.values() for body in bodies}
    for parcel in run.parcels:
        (result,) = parcel.results()
        assert result.queue_offset is not None
        assert run.log[result.queue][result.queue_offset] in stored
    assert len(stored) == len(run.parcels)
    return stored


def test_the_order_test_has_lone_sends_among_the_others() -> None:
    runs = [Run(ProducerCore, seed) for seed in range(10)]
    for run in runs:
        run.go(60)

    assert sum(run.alone for run in runs) >= 10


def test_the_order_test_catches_a_producer_with_two_batches_of_a_queue_under_way() -> None:
    broken = [seed for seed in range(30) if not _is_ordered_with_two(seed)]

    assert broken


def _is_ordered_with_two(seed: int) -> bool:
    run = Run(TwoInFlight, seed)
    run.go(60)
    return run.is_ordered()


def test_a_queue_has_at_most_one_request_under_way() -> None:
    clock = ManualClock()
    settings = ProducerSettings(batch_messages_max=1)
    core = ProducerCore(
        settings, Calls(Endpoint.of("http://broker")), clock=clock, rng=random.Random(1)
    )
    drafting = Drafting(settings, clock=clock, lock=core.lock)
    put = partial(core.put, is_urgent=True, when_room=lambda: None)
    for _ in range(3):
        put(drafting.parcel(outgoing("orders", b"x", queue=0)))
    asking = core.take()
    assert asking is not None
    asking.done(TopicInfo(topic="orders", type="MIXED", queue_count=2), None)

    first, second = core.take(), core.take()

    assert first is not None
    assert second is None


class Orders:
    """A producer whose topic is known, and whose clock stands still."""

    def __init__(self, linger_ms: float | None, queues: int = 1) -> None:
        self.clock = ManualClock()
        settings = ProducerSettings(linger_ms=linger_ms)
        calls = Calls(Endpoint.of("http://broker"))
        self.core = ProducerCore(settings, calls, clock=self.clock, rng=random.Random(1))
        self.drafting = Drafting(settings, clock=self.clock, lock=self.core.lock)
        self.put(0, is_urgent=True)
        asking = self.taken()
        asking.done(TopicInfo(topic="orders", type="MIXED", queue_count=queues), None)
        self.settle(self.taken())

    def put(self, queue: int, *, is_urgent: bool = False) -> None:
        parcel = self.drafting.parcel(outgoing("orders", b"x", queue=queue))
        assert self.core.put(parcel, is_urgent=is_urgent, when_room=lambda: None)

    def taken(self) -> Job:
        job = self.core.take()
        assert job is not None
        return job

    def settle(self, job: Job) -> None:
        job.done(BatchReceipt(count=1, queue_offset=0, store_time_ms=1), None)


def test_a_message_lingers_no_longer_than_set() -> None:
    orders = Orders(linger_ms=2.0)
    orders.put(0)

    before = orders.core.take()
    wait_s = orders.core.wait_s()
    orders.clock.now_s += 0.002_001
    after = orders.core.take()

    assert before is None
    assert wait_s == pytest.approx(0.002)
    assert after is not None


def test_a_message_that_finds_no_request_under_way_goes_at_once() -> None:
    orders = Orders(linger_ms=None)
    orders.put(0)

    assert orders.core.take() is not None


def test_messages_behind_a_request_gather_for_two_milliseconds() -> None:
    orders = Orders(linger_ms=None, queues=2)
    orders.put(0)
    request = orders.taken()
    for _ in range(2):
        orders.put(1)

    before = orders.core.take()
    orders.settle(request)
    after_the_answer = orders.core.take()
    orders.clock.now_s += 0.002_001
    after = [orders.core.take() for _ in range(2)]

    assert (before, after_the_answer) == (None, None)
    assert [job is not None for job in after] == [True, False]


def test_a_full_buffer_takes_no_more_until_something_left_it() -> None:
    clock = ManualClock()
    settings = ProducerSettings(buffer_messages_max=1)
    core = ProducerCore(
        settings, Calls(Endpoint.of("http://broker")), clock=clock, rng=random.Random(1)
    )
    drafting = Drafting(settings, clock=clock, lock=core.lock)
    room = threading.Event()
    core.put(drafting.parcel(outgoing("orders", b"a")), is_urgent=True, when_room=room.set)

    is_taken = core.put(
        drafting.parcel(outgoing("orders", b"b")), is_urgent=True, when_room=room.set
    )
    was_called = room.is_set()
    asking = core.take()
    assert asking is not None
    asking.done(None, MqError("refused"))

    assert not is_taken
    assert not was_called
    assert room.is_set()


def test_whole_batches_without_a_key_are_spread_over_all_queues() -> None:
    run = Run(ProducerCore, seed=1)
    asked = outgoing("orders", b"")
    parcels = list(run.drafting.parcels([b"x"] * 90, asked))
    for parcel in parcels:
        assert run.core.put(parcel, is_urgent=True, when_room=lambda: None)
    question = run.core.take()
    assert question is not None
    run.finish(question)

    # One request may be under way for each queue, however many batches wait.
    under_way = [job for job in (run.core.take() for _ in range(QUEUES)) if job is not None]

    waiting = [lane.message_count for lane in run.core._topics["orders"].lanes.values()]
    assert len(parcels) == 30
    assert len(under_way) == QUEUES
    assert max(waiting) - min(waiting) <= 3
