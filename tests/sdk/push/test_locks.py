"""For how long a lock is trusted: never while another may have it."""

import random
from dataclasses import dataclass, field

import pytest
from mqclient.consuming.push.locks import LockKeeper
from mqclient.consuming.push.settings import checked_settings
from mqclient.errors import Forbidden, MqError
from mqclient.values import LockAnswer, LockGrant, TopicQueue

from tests.sdk.push.doubles import CALLS, FIRST, SECOND, ManualClock, lost


class Bench:
    """A keeper, and what it told its owner."""

    def __init__(self, clock: ManualClock | None = None, kind: type[LockKeeper] = LockKeeper):
        self.clock = clock or ManualClock()
        self.granted: list[tuple[TopicQueue, int]] = []
        self.lost: list[TopicQueue] = []
        self.renewed: list[TopicQueue] = []
        settings = checked_settings("orders", None, {"group": "g", "ordered": True})
        self.keeper = kind(
            settings,
            CALLS,
            clock=self.clock,
            on_granted=lambda place, epoch: self.granted.append((place, epoch)),
            on_lost=self.lost.append,
            on_renewed=self.renewed.append,
        )

    @property
    def due_in_s(self) -> float | None:
        moment_s = self.keeper.next_s()
        return None if moment_s is None else moment_s - self.clock.now_s

    def ask(self) -> None:
        assert self.keeper.begin(self.clock.now_s) is not None

    def grant(self, *places: TopicQueue, epoch: int = 1, lease_ms: int = 60_000) -> None:
        grants = tuple(
            LockGrant(place=place, epoch=epoch, expires_in_ms=lease_ms) for place in places
        )
        self.answer(LockAnswer(locked=grants, refused=()))

    def answer(self, answer: LockAnswer | None, error: MqError | None = None) -> None:
        self.keeper.done(answer, error, self.clock.now_s)

    def epoch(self, place: TopicQueue = FIRST) -> int | None:
        return self.keeper.trusted_epoch(place, self.clock.now_s)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_lock_is_trusted_for_thirty_seconds_from_before_it_was_asked_for(bench: Bench) -> None:
    bench.keeper.want(FIRST)
    bench.ask()
    bench.clock.now_s += 4
    bench.grant(FIRST)

    bench.clock.now_s += 25.9
    before = bench.epoch()
    bench.clock.now_s += 0.1
    after = bench.epoch()

    assert before == 1
    assert after is None


def test_an_answer_that_took_longer_than_the_trust_grants_nothing_to_rely_on(bench: Bench) -> None:
    bench.keeper.want(FIRST)
    bench.ask()
    bench.clock.now_s += 31
    bench.grant(FIRST)

    assert bench.epoch() is None
    assert bench.due_in_s is not None
    assert bench.due_in_s <= 0


def test_a_short_lease_is_trusted_for_its_half_and_renewed_after_its_third(bench: Bench) -> None:
    bench.keeper.want(FIRST)
    bench.ask()
    bench.grant(FIRST, lease_ms=6_000)

    due_in_s = bench.due_in_s
    bench.clock.now_s += 2.9
    before = bench.epoch()
    bench.clock.now_s += 0.1

    assert due_in_s == pytest.approx(2.0)
    assert before == 1
    assert bench.epoch() is None


def test_all_locks_are_renewed_together_every_twenty_seconds(bench: Bench) -> None:
    bench.keeper.want(FIRST)
    bench.ask()
    bench.grant(FIRST)
    bench.clock.now_s += 5
    bench.keeper.want(SECOND)
    bench.ask()
    bench.grant(SECOND)
    bench.clock.now_s += 15

    due_in_s = bench.due_in_s
    bench.ask()
    bench.grant(FIRST, SECOND)
    bench.clock.now_s += 29

    assert due_in_s == pytest.approx(0.0)
    assert (bench.epoch(FIRST), bench.epoch(SECOND)) == (1, 1)
    assert bench.granted == [(FIRST, 1), (SECOND, 1)]
    assert bench.renewed == [FIRST, SECOND]


def test_a_refused_lock_is_asked_for_again_every_second(bench: Bench) -> None:
    bench.keeper.want(FIRST)
    for _ in range(3):
        assert bench.due_in_s == pytest.approx(0.0)
        bench.ask()
        bench.answer(LockAnswer(locked=(), refused=((FIRST, "another"),)))
        assert bench.due_in_s == pytest.approx(1.0)
        bench.clock.now_s += 1

    assert bench.lost == []


def test_a_refused_renewal_is_a_lost_lock(bench: Bench) -> None:
    bench.keeper.want(FIRST)
    bench.ask()
    bench.grant(FIRST)
    bench.clock.now_s += 20
    bench.ask()
    bench.answer(LockAnswer(locked=(), refused=((FIRST, "another"),)))

    assert bench.lost == [FIRST]
    assert bench.epoch() is None


@pytest.mark.parametrize("error", [lost(), Forbidden("no")])
def test_a_request_without_an_answer_leaves_the_trust_to_run_down(
    bench: Bench, error: MqError
) -> None:
    bench.keeper.want(FIRST)
    bench.ask()
    bench.grant(FIRST)
    bench.clock.now_s += 20
    bench.ask()
    bench.answer(None, error)

    due_in_s = bench.due_in_s
    bench.clock.now_s += 9.9
    before = bench.epoch()
    bench.clock.now_s += 0.1

    assert due_in_s == pytest.approx(1.0)
    assert before == 1
    assert bench.epoch() is None
    assert bench.lost == []


def test_an_answer_to_an_old_request_grants_nothing_that_was_forgotten(bench: Bench) -> None:
    bench.keeper.want(FIRST)
    bench.ask()
    bench.keeper.forget(FIRST)
    bench.keeper.want(FIRST)
    bench.grant(FIRST)

    assert bench.epoch() is None
    assert bench.granted == []


def test_a_refused_epoch_is_not_trusted_and_asked_for_anew(bench: Bench) -> None:
    bench.keeper.want(FIRST)
    bench.ask()
    bench.grant(FIRST)
    bench.keeper.lose(FIRST)

    gone = bench.epoch()
    due_in_s = bench.due_in_s
    bench.clock.now_s += 1
    bench.ask()
    bench.grant(FIRST, epoch=2)

    assert gone is None
    assert due_in_s == pytest.approx(1.0)
    assert bench.granted == [(FIRST, 1), (FIRST, 2)]


class FromTheAnswer(LockKeeper):
    """Wrong on purpose: trusts a lock from the moment of the answer, and for the whole lease."""

    def done(self, answer: LockAnswer | None, error: MqError | None, now_s: float) -> None:
        super().done(answer, error, now_s)
        for grant in answer.locked if answer is not None else ():
            self._locks[grant.place].trusted_until_s = now_s + grant.expires_in_ms / 1000


@dataclass
class Table:
    """The broker's lock of one queue, with a lease of 60 s."""

    clock: ManualClock
    owner: int | None = None
    epoch: int = 0
    until_s: float = 0.0

    def acquire(self, client: int) -> LockAnswer:
        now_s = self.clock.now_s
        if self.owner != client and now_s < self.until_s:
            return LockAnswer(locked=(), refused=((FIRST, str(self.owner)),))
        if self.owner != client or now_s >= self.until_s:
            self.owner, self.epoch = client, self.epoch + 1
        self.until_s = now_s + 60
        grant = LockGrant(place=FIRST, epoch=self.epoch, expires_in_ms=60_000)
        return LockAnswer(locked=(grant,), refused=())


@dataclass
class Race:
    """Members that want one queue, late and lost answers, pauses of any length."""

    seed: int
    kind: type[LockKeeper] = LockKeeper
    clock: ManualClock = field(default_factory=ManualClock)
    overlaps: int = 0
    changes: int = 0

    def run(self) -> None:
        rng = random.Random(self.seed)
        table = Table(self.clock)
        benches = [Bench(self.clock, self.kind) for _ in range(3)]
        for bench in benches:
            bench.keeper.want(FIRST)
        # Answers on their way, each to be read at a moment of its own.
        on_their_way: dict[int, tuple[float, LockAnswer | None]] = {}
        for _ in range(400):
            self.clock.now_s += rng.choice((0.1, 1.0, 5.0, 20.0, 45.0))
            for index, bench in enumerate(benches):
                if rng.random() < 0.3:
                    continue  # It is paused.
                now_s = self.clock.now_s
                if index in on_their_way and on_their_way[index][0] <= now_s:
                    answer = on_their_way.pop(index)[1]
                    bench.answer(answer, None if answer is not None else lost())
                due_s = bench.keeper.next_s()
                if due_s is not None and due_s <= now_s:
                    bench.ask()
                    carried_out = table.acquire(index) if rng.random() < 0.9 else None
                    read = carried_out if rng.random() < 0.9 else None
                    on_their_way[index] = now_s + rng.choice((0.0, 0.5, 10.0, 50.0)), read
            trusting = [bench.epoch() for bench in benches]
            held = [epoch for epoch in trusting if epoch is not None]
            self.overlaps += len(held) > 1 or any(epoch != table.epoch for epoch in held)
        self.changes = table.epoch


@pytest.mark.parametrize("seed", range(40))
def test_two_members_never_trust_one_lock_at_a_time(seed: int) -> None:
    race = Race(seed)

    race.run()

    assert race.changes > 3
    assert race.overlaps == 0


def test_a_keeper_that_counts_from_the_answer_is_caught() -> None:
    races = [Race(seed, FromTheAnswer) for seed in range(40)]

    for race in races:
        race.run()

    assert sum(race.overlaps > 0 for race in races) > 10
