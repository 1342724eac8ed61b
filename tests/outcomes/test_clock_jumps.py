"""A wall clock that is set an hour ahead, back, and to and fro by a minute: nothing comes early.

Row L6 of the fault table, with an engine in this process whose wall clock the test sets; the steady
clock is the machine's. Due is what both clocks call due, and what is judged is what a reader saw.
"""

import asyncio
import random
import time
from pathlib import Path

import numpy as np
import pytest

from apps.engine.codec.properties import DELAY, TIMER_DELAY_MS, TIMER_DELIVER_MS, encode_properties
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.types import (
    AckMode,
    CatalogSnapshot,
    MessageBlock,
    PullRequest,
    RecordBatch,
    TopicSpec,
)
from tests.histories import delays, phantoms
from tests.histories.events import Verb
from tests.histories.faults import faults_of
from tests.histories.history import read
from tests.histories.recorder import Recorder
from tests.histories.verdicts import Validity, are_valid
from tests.outcomes.calls import body_of, digest_of, id_of
from tests.rounds import seed_of_run

SEED = seed_of_run()
TOPIC, LEVELLED, GROUP = "later", "levelled", "late"
LEVELS_MS = (300, 900)
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
# In the end the clock is right again.
JUMPS_MS = (
    HOUR_MS, -HOUR_MS, -HOUR_MS, HOUR_MS, MINUTE_MS, -MINUTE_MS, -MINUTE_MS, MINUTE_MS,
)  # fmt: skip
BETWEEN_JUMPS_S = 0.4
CONFIG = EngineConfig(
    segment_bytes=16 * MIB, batch_bytes_max=MIB, body_bytes_max=MIB // 2, reserve_bytes=0,
    delay_levels_ms=LEVELS_MS,
)  # fmt: skip


class SettableClock:
    """The machine's clocks; how far the wall clock is off is what the test says."""

    def __init__(self) -> None:
        """Begin with a wall clock that is right."""
        self.off_ms = 0

    def wall_ns(self) -> int:
        """Return nanoseconds since 1970, as this clock has it."""
        return time.time_ns() + self.off_ms * 1_000_000

    def wall_ms(self) -> int:
        """Return milliseconds since 1970, as this clock has it."""
        return self.wall_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go back."""
        return time.monotonic_ns() // 1_000_000


class Run:
    """An engine, one who sends, one who reads and one who sets the clock."""

    def __init__(self, engine: LocalEngine, clock: SettableClock, recorder: Recorder) -> None:
        """Bind to an engine that runs."""
        self._engine = engine
        self._clock = clock
        self._recorder = recorder
        self._rng = random.Random(SEED)
        self.is_over = asyncio.Event()
        self.sent = 0
        self._read_until = {TOPIC: 0, LEVELLED: 0}

    async def send(self) -> None:
        """Send messages with delays of all kinds until it is over."""
        while not self.is_over.is_set():
            wait_ms = self._rng.randrange(50, 900)
            level = self._rng.randrange(1, 3)
            now_ms = self._clock.wall_ms()
            topic, properties, due_ms = self._rng.choice(
                (
                    (LEVELLED, {DELAY: str(level)}, now_ms + LEVELS_MS[level - 1]),
                    (TOPIC, {TIMER_DELAY_MS: str(wait_ms)}, now_ms + wait_ms),
                    (TOPIC, {TIMER_DELIVER_MS: str(now_ms + wait_ms)}, now_ms + wait_ms),
                )
            )
            body = body_of(f"m{self.sent}")
            self.sent += 1
            messages = [[id_of(body), digest_of(body), due_ms]]
            running = self._recorder.invoke(
                Verb.DELAY, producer="p", topic=topic, messages=messages
            )
            await self._engine.append([_batch(topic, body, properties)], ack=AckMode.SYNC)
            running.ok()
            await asyncio.sleep(0.01)

    async def read(self, topic: str) -> None:
        """Read everything that comes, as it comes."""
        offset = 0
        while True:
            request = PullRequest(topic=topic, queue=0, queue_offset=offset, wait_ms=1_000)
            result = await self._engine.pull(request)
            for number, text in enumerate(_bodies(result.block)):
                asked = {"group": GROUP, "client": "reader", "topic": topic, "queue": 0}
                messages = [[id_of(text), offset + number, digest_of(text)]]
                running = self._recorder.invoke(Verb.DELIVER, **asked, messages=messages)
                running.ok(done=1)
            offset = self._read_until[topic] = result.next_offset

    async def tick(self) -> None:
        """Have due levels delivered, as beat and worker do."""
        while True:
            await self._engine.deliver_levels()
            await asyncio.sleep(0.05)

    async def jump(self) -> None:
        """Set the clock again and again, and say so."""
        for jump_ms in JUMPS_MS:
            await asyncio.sleep(BETWEEN_JUMPS_S * self._rng.uniform(0.5, 1.5))
            # A message that was delivered and not seen yet would look early by the new time.
            while not self._has_read_all():
                await asyncio.sleep(0.001)
            self._recorder.notice(Verb.NEMESIS, fault="set clock", target="broker")
            self._clock.off_ms += jump_ms
        await asyncio.sleep(BETWEEN_JUMPS_S)

    def _has_read_all(self) -> bool:
        """Say whether the reader has seen all that was delivered, synced or not."""
        queues = self._engine._host.broker.queues
        return all(queues.queue(topic, 0).end == end for topic, end in self._read_until.items())


def _batch(topic: str, body: str, properties: dict[str, str]) -> RecordBatch:
    section = encode_properties(properties)
    record = encode_record(topic=topic.encode(), queue=0, body=body.encode(), properties=section)
    sizes = np.array([len(record)], dtype=np.int32)
    return RecordBatch(topic=topic, queue=0, payload=bytearray(record), sizes=sizes)


def _bodies(block: MessageBlock) -> list[str]:
    ends = np.cumsum(block.sizes)
    return [
        decode_record(bytes(block.payload[end - size : end])).body.decode()
        for end, size in zip(ends.tolist(), block.sizes.tolist(), strict=True)
    ]


async def test_a_clock_that_is_set_makes_nothing_come_early(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    clock = SettableClock()
    with Recorder(tmp_path / "run.jsonl", "run", wall_ns=clock.wall_ns) as recorder:
        engine = await LocalEngine.open(tmp_path / "store", CONFIG, clock=clock)
        topics = {name: TopicSpec(name=name, queue_count=1) for name in (TOPIC, LEVELLED)}
        engine.publish_catalog(CatalogSnapshot(version=1, topics=topics))
        # Of levels only the head is looked at: behind one that a clock dated an hour ahead, all of
        # them wait. So they have no group here, and are judged for being early or double only.
        recorder.notice(Verb.SUBSCRIBE, group=GROUP, topic=TOPIC, ordered=False, tags=None)
        run = Run(engine, clock, recorder)
        async with asyncio.TaskGroup() as tasks:
            readers = [
                tasks.create_task(work)
                for work in (run.read(TOPIC), run.read(LEVELLED), run.tick())
            ]
            sender = tasks.create_task(run.send())
            await run.jump()
            run.is_over.set()
            await sender
            # What is due by both clocks comes; what a clock that was ahead dated, does not yet.
            await asyncio.sleep(3.0)
            for reader in readers:
                reader.cancel()
        await engine.close()

    history = read(tmp_path)
    verdict = delays.check(history, late_s=30.0)
    print(verdict, phantoms.check(history), sep="\n")

    assert len(faults_of(history)) == len(JUMPS_MS)
    assert verdict.counts["came"] > run.sent / 4
    assert verdict.violation_count == 0
    assert are_valid([phantoms.check(history)])


async def test_a_broker_that_trusts_its_clock_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: without the guard a jump ahead delivers early, and this sees it."""
    monkeypatch.setattr("apps.engine.broker.clockguard._STEP_MS_MAX", 1 << 60)

    with pytest.raises(AssertionError):
        await test_a_clock_that_is_set_makes_nothing_come_early(tmp_path)

    verdict = delays.check(read(tmp_path), late_s=60.0)
    assert verdict.validity is Validity.INVALID
    assert verdict.counts["early"] > 0
