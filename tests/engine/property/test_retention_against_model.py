"""A store whose front is deleted, beside lists that remember everything.

Random sends, receives, acknowledgements, hours that pass, cleanings, restarts, kills and lost
queues; after each step the store must be the end of the lists, and no shorter than was promised.
"""

import asyncio
import random
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from apps.engine.errors import EngineError
from apps.engine.failpoints import Failpoints
from apps.engine.local import LocalEngine
from apps.engine.testing.crashes import CrashMode
from apps.engine.types import CatalogSnapshot, PullStatus
from tests.engine.local.keeping import CONFIG, HOUR_MS, Keeping, kept, pull, receive, send

QUEUES = 2


class RetentionMachine(RuleBasedStateMachine):
    """What was stored when, by queue; what is settled, in flight, and known to be gone."""

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = Keeping()
        self.engine: LocalEngine | None = None
        self.stored_ms: dict[int, list[int]] = {queue: [] for queue in range(QUEUES)}
        self.settled: set[tuple[int, int]] = set()
        self.in_flight: dict[str, tuple[int, int, int]] = {}
        self.first = dict.fromkeys(range(QUEUES), 0)
        self.deleted = 0
        self._open()

    def teardown(self) -> None:
        if getattr(self, "engine", None) is not None:
            self._close()
            self.loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def _open(self) -> None:
        self.engine = self._run(
            LocalEngine.open(
                Path(),
                CONFIG,
                clock=self.store.clock,
                disk=self.store.disk,
                failpoints=Failpoints(),
            )
        )
        version = self.engine.catalog.version + 1
        self.engine.publish_catalog(CatalogSnapshot(version=version, topics=self.store.topics))

    def _close(self) -> None:
        with suppress(EngineError):
            self._run(self.engine.close())

    @rule(queue=st.integers(0, QUEUES - 1), count=st.integers(1, 6))
    def sends(self, queue: int, count: int) -> None:
        self._run(send(self.engine, count, queue=queue))
        self.stored_ms[queue] += [self.store.clock.wall_ms()] * count

    @rule(most=st.integers(1, 6))
    def receives(self, most: int) -> None:
        result = self._run(receive_places(self.engine, most))
        now_ms = self.store.clock.monotonic_ms()
        for handle, queue, offset in result:
            assert offset >= self.first[queue], "handed out what is gone"
            assert (queue, offset) not in self.settled
            self.in_flight[handle] = (queue, offset, now_ms + HOUR_MS)

    @rule(data=st.data())
    @precondition(lambda self: self.in_flight)
    def acknowledges(self, data: st.DataObject) -> None:
        handle = data.draw(st.sampled_from(sorted(self.in_flight)))
        queue, offset, due_ms = self.in_flight.pop(handle)
        self._run(self.engine.ack("g", [handle]))
        if due_ms > self.store.clock.monotonic_ms():
            self.settled.add((queue, offset))

    @rule(hours=st.integers(1, 50))
    def hours_pass(self, hours: int) -> None:
        self.store.clock.advance(hours * HOUR_MS)
        self.engine._host.broker.expire()
        now_ms = self.store.clock.monotonic_ms()
        self.in_flight = {h: held for h, held in self.in_flight.items() if held[2] > now_ms}

    @rule()
    def cleans(self) -> None:
        while True:
            cleaned = self._run(self.engine.clean_now())
            self.deleted += cleaned.deleted_segments
            if not cleaned.more:
                return

    @rule()
    def restarts(self) -> None:
        self._close()
        self._open()

    @rule(seed=st.integers(0, 99), mode=st.sampled_from(list(CrashMode)))
    def dies(self, seed: int, mode: CrashMode) -> None:
        # Hand-outs are not waited for: a power cut may take them back.
        if mode is not CrashMode.EVERYTHING:
            self.in_flight.clear()
        image = self.store.disk.crash_image(random.Random(seed), mode)
        self.store.disk.fail_sync_from = 1
        self._close()
        self.store.disk = image
        self._open()

    @rule()
    def loses_its_queues(self) -> None:
        self._close()
        self.store.disk.remove("checkpoint/consumequeue")
        self._open()

    @invariant()
    def the_store_is_the_end_of_the_lists(self) -> None:
        if getattr(self, "engine", None) is None:
            return
        young_ms = self.store.clock.wall_ms() - CONFIG.retention_ms
        for queue, stored_ms in self.stored_ms.items():
            found = self._run(kept(self.engine, queue=queue))
            first = found[0] if found else self.engine.queue_ranges("t")[queue].min_offset
            assert first + len(found) == len(stored_ms), "the end is another one"
            assert first >= self.first[queue], "what was gone is back"
            assert all(ms <= young_ms for ms in stored_ms[self.first[queue] : first]), "too young"
            held = [offset for number, offset, _ in self.in_flight.values() if number == queue]
            assert first <= min(held, default=first), "in flight, and gone"
            self.first[queue] = first
            if first:
                result = self._run(pull(self.engine, first - 1, queue=queue))
                assert (result.status, result.next_offset) == (PullStatus.OFFSET_ILLEGAL, first)
        for row in self.engine.group_progress("g"):
            gone = {(row.queue, offset) for offset in range(self.first[row.queue])}
            assert row.committed >= self.first[row.queue]
            assert row.lost <= len(gone - self.settled)


async def receive_places(engine: LocalEngine, most: int) -> list[tuple[str, int, int]]:
    """Receive for group g; return handle, queue and offset of each message."""
    before = {entry.lease for entry in engine._host.broker.state.leases}
    handles = await receive(engine, most=most)
    entries = [e for e in engine._host.broker.state.leases if e.lease not in before]
    queues = {f"{entry.lease:x}": entry.progress.queue for entry in entries}
    return [
        (handle, queues[handle.partition(".")[0]], int(handle.rpartition(":")[2]))
        for handle in handles
    ]


TestRetention = RetentionMachine.TestCase
TestRetention.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, print_blob=True
)


def test_the_machine_gets_to_delete_something() -> None:
    machine = RetentionMachine()
    machine.start()
    machine.sends(0, 6)
    machine.sends(0, 6)
    machine.hours_pass(50)
    machine.hours_pass(50)
    machine.sends(1, 6)
    machine.cleans()
    machine.the_store_is_the_end_of_the_lists()
    machine.teardown()

    assert machine.deleted >= 1
    assert machine.first[0] > 0
