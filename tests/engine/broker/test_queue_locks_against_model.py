"""Random clients, clocks, restarts and power cuts on queue locks, against an obvious dict."""

import copy
from dataclasses import dataclass, replace

import hypothesis.strategies as st
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from apps.engine.errors import LockLost
from tests.engine.broker.lockbench import GROUP, LEASE_MS, LockBench, place

CLIENTS = ["a", "b", "c"]
QUEUES = [0, 1]
client = st.sampled_from(CLIENTS)
queue = st.sampled_from(QUEUES)
queues = st.lists(queue, min_size=1, max_size=3)


@dataclass(frozen=True)
class Held:
    """A lock as the model has it, or as a client believes to have it: until when."""

    owner: str
    epoch: int
    until_ms: int


class LockMachine(RuleBasedStateMachine):
    """What the broker has, what of it is on the disk, and what clients were told.

    A client is told of a grant once it is synced, as in sync mode, and believes in it for a lease
    from the moment of the grant: less than any client would that starts counting at the answer.
    """

    bench_type = LockBench

    @initialize()
    def start(self) -> None:
        self.bench = self.bench_type()
        self.model: dict[int, Held] = {}
        self.durable: dict[int, Held] = {}
        self.believed: dict[tuple[str, int], Held] = {}
        self.told_later: dict[tuple[str, int], Held] = {}
        self.assigned: dict[int, str] = {}
        self.owner_of_epoch: dict[int, str] = {}
        self.newest_believed = dict.fromkeys(QUEUES, 0)
        self.newest_granted = 0

    @property
    def now(self) -> int:
        return self.bench.clock.monotonic_ms()

    @rule(who=client, wanted=queues)
    def acquire(self, who: str, wanted: list[int]) -> None:
        answer = self.bench.locks.acquire(GROUP, who, [place(number) for number in wanted])
        granted = iter(answer.locked)
        refused = iter(answer.refused)
        for number in wanted:
            held = self.model.get(number)
            is_running = held is not None and self.now < held.until_ms
            if held is not None and is_running and held.owner != who:
                refusal = next(refused)
                assert (refusal.queue, refusal.owner) == (number, held.owner)
                continue
            if self.assigned.get(number, who) != who:
                refusal = next(refused)
                assert (refusal.queue, refusal.owner) == (number, self.assigned[number])
                continue
            grant = next(granted)
            assert (grant.queue, grant.expires_in_ms) == (number, LEASE_MS)
            if held is not None and is_running:
                assert grant.epoch == held.epoch
            else:
                assert grant.epoch > self.newest_granted
                self.newest_granted = grant.epoch
            self.model[number] = Held(who, grant.epoch, self.now + LEASE_MS)
            self.told_later[who, number] = self.model[number]
        assert next(granted, None) is None
        assert next(refused, None) is None

    @rule(who=client, wanted=queues)
    def release(self, who: str, wanted: list[int]) -> None:
        self.bench.locks.release(GROUP, who, [place(number) for number in wanted])
        for number in wanted:
            self.forget(who, number)

    @rule(who=client)
    def leave(self, who: str) -> None:
        self.bench.locks.release_all(GROUP, who, reason="leave")
        for number in QUEUES:
            self.forget(who, number)

    @rule(number=queue, expected=st.none() | client)
    def force(self, number: int, expected: str | None) -> None:
        held = self.model.get(number)
        try:
            line = self.bench.locks.force(
                GROUP, place(number), reason="stuck", expected_owner=expected
            )
        except LockLost:
            assert held is not None
            assert expected not in (None, held.owner)
            return
        assert (line is None) == (held is None)
        if held is not None:
            # Whoever forces a lock answers for the client that still believes in it.
            assert expected in (None, held.owner)
            self.forget(held.owner, number)

    def forget(self, who: str, number: int) -> None:
        self.believed.pop((who, number), None)
        self.told_later.pop((who, number), None)
        if number in self.model and self.model[number].owner == who:
            del self.model[number]

    @rule(number=queue, who=st.none() | client)
    def assign(self, number: int, who: str | None) -> None:
        if who is None:
            self.assigned.pop(number, None)
            self.bench.owners.pop((GROUP, "orders", number), None)
        else:
            self.assigned[number] = self.bench.owners[GROUP, "orders", number] = who

    @rule(ms=st.sampled_from([1, 1_000, LEASE_MS // 2, LEASE_MS - 1, LEASE_MS]))
    def let_time_pass(self, ms: int) -> None:
        self.bench.clock.advance(ms)

    @rule(ms=st.integers(-7_200_000, 7_200_000))
    def jump(self, ms: int) -> None:
        self.bench.clock.set_wall(max(0, self.bench.clock.wall_ms() + ms))

    @rule()
    def sync(self) -> None:
        self.bench.synced = len(self.bench.journal)
        self.durable = copy.copy(self.model)
        for (who, number), held in self.told_later.items():
            assert held.epoch >= self.newest_believed[number]
            assert self.owner_of_epoch.setdefault(held.epoch, who) == who
            self.newest_believed[number] = held.epoch
            self.believed[who, number] = held
        self.told_later.clear()

    @rule(from_checkpoint=st.booleans())
    def restart(self, from_checkpoint: bool) -> None:
        self.sync()
        self.bench.start(from_checkpoint=from_checkpoint)
        self.begin_leases()

    @rule()
    def cut_power(self) -> None:
        self.told_later.clear()
        self.bench.cut_power()
        self.model = copy.copy(self.durable)
        self.begin_leases()

    def begin_leases(self) -> None:
        until_ms = self.now + LEASE_MS
        self.model = {n: replace(held, until_ms=until_ms) for n, held in self.model.items()}
        self.durable = copy.copy(self.model)

    @invariant()
    def the_table_is_the_model_s(self) -> None:
        found = {
            state.queue: Held(state.owner, state.epoch, self.now + state.expires_in_ms)
            for state in self.bench.locks.states(GROUP)
        }
        assert found == self.model

    @invariant()
    def no_two_clients_believe_in_one_lock(self) -> None:
        for number in QUEUES:
            believers = [
                who
                for (who, where), held in self.believed.items()
                if where == number and self.now < held.until_ms
            ]
            assert len(believers) <= 1

    @invariant()
    def whoever_believes_is_let_through_and_nobody_else(self) -> None:
        for (who, number), held in self.believed.items():
            if self.now < held.until_ms:
                assert self.bench.holds(who, held.epoch, number)
            elif self.bench.holds(who, held.epoch, number):
                # The lease began again with a restart, and nobody else has the lock.
                assert self.model[number].owner == who


LockMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestLocksAgainstModel = LockMachine.TestCase


class NoLeaseAfterRestart(LockBench):
    """A broker that lets others have, after a restart, what their holders still believe in."""

    def start(self, *, from_checkpoint: bool = False) -> None:
        super().start(from_checkpoint=from_checkpoint)
        for _, _, entry in self.table:
            entry.lease_end_ms = self.clock.monotonic_ms()


class FencesFromOne(LockBench):
    """A broker whose epochs begin anew with each run of the store."""

    def start(self, *, from_checkpoint: bool = False) -> None:
        self.store_epoch = -1
        super().start(from_checkpoint=from_checkpoint)


@pytest.mark.parametrize("wrong", [NoLeaseAfterRestart, FencesFromOne])
def test_a_broker_that_is_wrong_on_purpose_is_found_out(wrong: type[LockBench]) -> None:
    class Canary(LockMachine):
        bench_type = wrong

    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(
            Canary,
            settings=settings(
                max_examples=300,
                stateful_step_count=40,
                deadline=None,
                database=None,
                report_multiple_bugs=False,
                phases=[Phase.generate],
            ),
        )
