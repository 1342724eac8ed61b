"""Transactions and numbered messages while the power is cut: once or not at all, and as decided.

A client begins, commits, rolls back, asks again, sends numbers again, and is asked. An answer
counts from the sync that makes it durable. The sweep cuts at every sync and keeps, of what was not
synced, nothing, all, or a part. Then all that was ever tried is tried again.
"""

import random
from dataclasses import dataclass, field, replace

import pytest

from apps.engine.broker.core import Broker, open_broker
from apps.engine.codec.batch import starts_of
from apps.engine.codec.layout import GIVEN_UP_TOPIC
from apps.engine.codec.record import decode_record
from apps.engine.errors import SyncFailed, TransactionDecided, UnknownTransaction
from apps.engine.failpoints import Failpoints
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.transactiontypes import Outcome
from apps.engine.types import CatalogSnapshot, PullRequest, RecordBatch, TopicSpec
from tests.engine.broker.sendbench import CONFIG, batch_of, record
from tests.rounds import report, rounds

SMALL = replace(CONFIG, transaction_checks_max=2, transaction_check_ms=50, transaction_ms_max=2_000)
QUEUES = 2
STEPS = 40

# Where a numbered message lies: queue and queue offset.
Place = tuple[int, int]


@dataclass(slots=True)
class Told:
    """What a client knows for sure: transactions that began, their ends, and places of numbers."""

    begun: dict[str, bytes] = field(default_factory=dict)
    ended: dict[str, Outcome] = field(default_factory=dict)
    places: dict[int, Place] = field(default_factory=dict)


class Client:
    """Does one random thing at a time, and remembers all it tried and what it was told."""

    def __init__(self, broker: Broker, clock: ManualClock, seed: int, *, early: bool) -> None:
        """Use a broker; an early client believes an answer before the sync."""
        self.told = Told()
        self.tried: dict[str, bytes] = {}
        self.outcomes: dict[str, set[Outcome]] = {}
        self.numbers: dict[int, bytes] = {}
        self.repeats = self.syncs = 0
        self._pending = Told()
        self._broker = broker
        self._clock = clock
        self._rng = random.Random(seed)
        self._is_early = early

    def step(self) -> None:
        """Do one random thing."""
        self._rng.choice(
            [self._begin, self._begin, self._end, self._end, self._end, self._send, self._send,
             self._send_again, self._check, self._give_up, self._sync, self._checkpoint]
        )()  # fmt: skip
        if self._is_early:
            self._believe()

    def _begin(self) -> None:
        body = b"half%d" % len(self.tried)
        begun = self._broker.transactions.begin(
            message(body, self._rng.randrange(QUEUES)), producer_group="g", check_immunity_ms=10
        )
        self.tried[begun.transaction_id] = self._pending.begun[begun.transaction_id] = body

    def _end(self) -> None:
        if not self.tried:
            return
        transaction_id = self._rng.choice(sorted(self.tried))
        outcome = self._rng.choice([Outcome.COMMITTED, Outcome.ROLLED_BACK])
        try:
            self._broker.transactions.end(transaction_id, outcome, wait=True)
        except TransactionDecided:
            return
        self.outcomes.setdefault(transaction_id, set()).add(outcome)
        self._pending.ended[transaction_id] = outcome

    def _send(self) -> None:
        queue = self._rng.randrange(QUEUES)
        first = len(self.numbers)
        numbers = range(first, first + self._rng.randrange(1, 4))
        self.numbers |= {number: b"number%d" % number for number in numbers}
        self._append(list(numbers), queue)

    def _send_again(self) -> None:
        if self.numbers:
            # It may go to another queue this time.
            self._append([self._rng.choice(sorted(self.numbers))], self._rng.randrange(QUEUES))
            self.repeats += 1

    def _append(self, numbers: list[int], queue: int) -> None:
        self._pending.places |= send(self._broker, numbers, queue)

    def _check(self) -> None:
        self._clock.advance(self._rng.randrange(60))
        self._broker.checks.receive("g", client_id="c", checks_max=4, wait=True)

    def _give_up(self) -> None:
        self._clock.advance(self._rng.randrange(60))
        ids = self._broker.transactions.ids
        for half in self._broker.checks.over(2):
            self._broker.checks.give_up(half, wait=True)
            transaction_id = ids.text(half.half_offset, half.epoch)
            self.outcomes.setdefault(transaction_id, set()).add(Outcome.GIVEN_UP)
            self._pending.ended[transaction_id] = Outcome.GIVEN_UP

    def _sync(self) -> None:
        self._broker.log.sync()
        self._broker.show_synced()
        self._believe()

    def _checkpoint(self) -> None:
        self._broker.checkpoint()
        self._believe()

    def _believe(self) -> None:
        self.told.begun |= self._pending.begun
        self.told.ended |= self._pending.ended
        self.told.places |= self._pending.places
        self._pending = Told()


def message(body: bytes, queue: int, number: int | None = None) -> RecordBatch:
    return batch_of([record("t", queue, body, number=number)], queue=queue, by_message=True)


def send(broker: Broker, numbers: list[int], queue: int) -> dict[int, Place]:
    """Send numbered messages as a door does; return where each is."""
    records = [record("t", queue, b"number%d" % number, number=number) for number in numbers]
    batch = batch_of(records, queue=queue, by_message=True)
    (answer,), _ = broker.repeats.append(broker.appender.check([batch]))
    new = iter(range(answer.queue_offset, answer.queue_offset + answer.count))
    return {
        number: answer.repeats.get(place) or (queue, next(new))
        for place, number in enumerate(numbers)
    }


def stored(broker: Broker, topic: str = "t", queues: int = QUEUES) -> dict[Place, bytes]:
    """Read everything of a topic."""
    found = {}
    for queue in range(queues):
        request = PullRequest(topic=topic, queue=queue, queue_offset=0, messages_max=10_000)
        block = broker.pull(request).block
        for start in starts_of(block.sizes).tolist():
            one = decode_record(block.payload, start)
            found[queue, one.queue_offset] = one.body
    return found


def opened(disk: SimulatedDisk, clock: ManualClock) -> Broker:
    return open_broker(disk, config=SMALL, clock=clock, failpoints=Failpoints())


def run(seed: int, *, cut_at: int | None, early: bool = False) -> tuple[SimulatedDisk, Client]:
    """Run the workload of `seed` up to its sync `cut_at`, which fails: there the power goes."""
    disk, clock = SimulatedDisk(), ManualClock()
    broker = opened(disk, clock)
    topics = {"t": TopicSpec(name="t", queue_count=QUEUES)}
    broker.publish_catalog(CatalogSnapshot(version=1, topics=topics))
    broker.checkpoint()
    begin = disk.sync_count
    disk.fail_sync_from = None if cut_at is None else begin + cut_at
    client = Client(broker, clock, seed, early=early)
    try:
        for _ in range(STEPS):
            client.step()
    except SyncFailed:
        disk.fail_sync_from = None
    client.syncs = disk.sync_count - begin
    return disk, client


def outcome_of(broker: Broker, transaction_id: str) -> Outcome | None:
    """Return how a transaction ended; None where it is undecided. Raises UnknownTransaction."""
    half_offset, epoch = broker.transactions.ids.parse(transaction_id)
    decided = broker.state.transactions.decided.get(half_offset)
    if decided is not None and decided[0] == epoch:
        return decided[1].outcome
    broker.transactions.pending(half_offset, epoch)
    return None


def check(disk: SimulatedDisk, client: Client) -> None:
    """Start on what is left and compare with what was told; then try everything again."""
    broker = opened(disk, ManualClock())
    found = stored(broker)
    assert len(set(found.values())) == len(found), "a message is there twice"
    check_transactions(broker, client, set(found.values()))
    for number, place in client.told.places.items():
        assert found.get(place) == client.numbers[number], f"number {number} is not where it was"
    decide_again(broker, client)
    for number in client.numbers:
        place = send(broker, [number], queue=number % QUEUES)[number]
        assert place == client.told.places.get(number, place), "a number was stored twice"
    broker.log.sync()
    broker.show_synced()
    bodies = sorted(stored(broker).values())
    assert len(set(bodies)) == len(bodies), "a message was stored twice"
    assert set(client.numbers.values()) <= set(bodies), "a number is missing"
    broker.close()


def check_transactions(broker: Broker, client: Client, visible: set[bytes]) -> None:
    """Compare each transaction's state with what is visible and with what was told."""
    given_up = set(stored(broker, GIVEN_UP_TOPIC, 1).values())
    for transaction_id, body in client.tried.items():
        try:
            outcome = outcome_of(broker, transaction_id)
        except UnknownTransaction:
            assert transaction_id not in client.told.begun, "a transaction was lost"
            outcome = None
        else:
            tried = client.outcomes.get(transaction_id, set())
            assert outcome is None or outcome in tried, "nobody decided so"
        told = client.told.ended.get(transaction_id)
        assert told in (None, outcome), "a decision was lost"
        assert (body in visible) == (outcome is Outcome.COMMITTED), "visible but not committed"
        assert (body in given_up) == (outcome is Outcome.GIVEN_UP)


def decide_again(broker: Broker, client: Client) -> None:
    """Repeat every decision late and wrongly, and commit what is undecided."""
    before = stored(broker)
    for transaction_id, body in client.tried.items():
        try:
            outcome = outcome_of(broker, transaction_id)
        except UnknownTransaction:
            continue
        if outcome in (Outcome.COMMITTED, Outcome.ROLLED_BACK):
            again = broker.transactions.end(transaction_id, outcome, wait=True)
            assert again.is_repeat
            if outcome is Outcome.COMMITTED:
                assert before[again.queue or 0, again.queue_offset or 0] == body
        for other in {Outcome.COMMITTED, Outcome.ROLLED_BACK} - {outcome}:
            if outcome is not None:
                with pytest.raises(TransactionDecided):
                    broker.transactions.end(transaction_id, other, wait=True)
        if outcome is None:
            broker.transactions.end(transaction_id, Outcome.COMMITTED, wait=True)


def sweep(seeds: range) -> tuple[int, int]:
    """Cut at every sync of every seed in every mode; return cases and messages sent again."""
    cases = repeats = 0
    for seed in seeds:
        for cut_at in range(1, run(seed, cut_at=None)[1].syncs + 1):
            disk, client = run(seed, cut_at=cut_at)
            assert disk.faults["sync"], "the fault did not fire"
            repeats += client.repeats
            for modes, left in disk.crash_images(seed):
                cases += len(modes)
                print(f"seed {seed}, cut at sync {cut_at}, {modes}")
                check(left, client)
    return cases, repeats


def test_a_power_cut_at_any_sync_leaves_everything_once_and_as_it_was_decided() -> None:
    cases, repeats = sweep(range(1))

    assert cases > 150
    assert repeats > 10


def test_a_client_that_believes_before_the_sync_is_deceived() -> None:
    deceived = cases = 0
    for cut_at in range(1, run(1, cut_at=None)[1].syncs + 1):
        disk, client = run(1, cut_at=cut_at, early=True)
        cases += 1
        try:
            check(disk.crash_image(random.Random(1), CrashMode.NOTHING), client)
        except AssertionError:
            deceived += 1

    print(f"{deceived} of {cases}")
    assert deceived > cases // 10


@pytest.mark.crash
def test_a_power_cut_at_any_sync_leaves_everything_once_for_many_seeds() -> None:
    seeds = rounds(10)

    cases, _ = sweep(range(100, 100 + seeds))

    assert cases > 100 * seeds
    report("S1 S2 once", seeds=seeds, cuts=cases, lost=0, doubled=0)
