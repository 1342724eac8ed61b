"""Power cut at every sync, and a process that dies at every step, in rounds and what follows them.

Whatever the moment: the store opens, the newest acknowledged message of every key is readable and
no older one comes instead, offsets count on, and the next round finishes what was begun.
"""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from apps.engine.derived.compacted.writer import PartWriter
from apps.engine.errors import EngineError
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import File
from apps.engine.local import LocalEngine
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.simdisk import SimulatedDisk
from tests.engine.local.compacting import Model, compacting, put, read_all
from tests.engine.local.keeping import HOUR_MS, Keeping, segments_on, send

AGED_MS = 73 * HOUR_MS
KEYS = 5
POINTS = (
    "compaction.before_file",
    "compaction.after_file",
    "compaction.after_manifest",
    "compaction.before_remove",
    "checkpoint.before_replace",
    "checkpoint.after_replace",
    "retention.after_start",
)


@dataclass(slots=True)
class Case:
    """A store, what was acknowledged of it, and what was sent without an answer."""

    store: Keeping
    model: Model = field(default_factory=Model)
    unanswered: tuple[str, bytes] | None = None

    def copy(self) -> "Case":
        """Return a twin on a disk of its own."""
        twin = compacting()
        twin.clock = self.store.clock
        twin.disk = self.store.disk.crash_image(random.Random(0), CrashMode.EVERYTHING)
        return Case(twin, Model({queue: list(sent) for queue, sent in self.model.sent.items()}))

    async def put(self, engine: LocalEngine, key: str, body: bytes) -> None:
        """Send one message, and remember it also when nothing is answered."""
        self.unanswered = (key, body)
        await put(engine, self.model, (key, body))
        self.unanswered = None


async def prepared() -> Case:
    """Fill a store: a first generation, of which the log is gone, and more messages behind it."""
    case = Case(compacting())
    store, model = case.store, case.model
    async with store.opened() as engine:
        for turn in range(8):
            await put(
                engine, model, (f"k{turn % KEYS}", b"%d" % turn * 2500), (f"once{turn}", b"x")
            )
        store.clock.advance(AGED_MS)
        await send(engine, 6, topic="u")
        assert (await engine.clean_now()).deleted_segments
        for turn in range(8):
            await put(engine, model, (f"k{turn % 3}", b"%d" % turn * 2500))
        store.clock.advance(AGED_MS)
        await send(engine, 6, topic="u")
        case.store.disk = store.disk.crash_image(random.Random(0), CrashMode.EVERYTHING)
    return case


async def worked(case: Case, *, cut_at: int | None = None, plan: Failpoints | None = None) -> int:
    """Compact, clean and send; the power goes at sync `cut_at`. Return how many syncs it took."""
    store = case.store
    engine = await LocalEngine.open(
        Path(), store.config, clock=store.clock, disk=store.disk, failpoints=Failpoints()
    )
    store.publish(engine)
    if plan is not None:
        # Not before: opening a store passes some of the points, too.
        broker = engine._host.broker
        for part in (broker, broker.compaction, broker.log, broker.log.front, broker.queues):
            part._failpoints = plan  # type: ignore[attr-defined]
    begin = store.disk.sync_count
    store.disk.fail_sync_from = None if cut_at is None else begin + cut_at
    with suppress(EngineError):
        await case.put(engine, "k0", b"between")
        await engine._compactor.compact_all()
        await case.put(engine, "k1", b"")
        await engine.clean_now()
        await case.put(engine, "k2", b"behind")
        await engine.clean_now()
    syncs = store.disk.sync_count - begin
    # The process is gone: what its end would write is written to a disk nobody looks at.
    left = store.disk.crash_image(random.Random(0), CrashMode.EVERYTHING)
    store.disk.fail_sync_from = 1
    with suppress(EngineError):
        await engine.close()
    store.disk = left
    return syncs


async def checked(case: Case, disk: SimulatedDisk) -> None:
    """Open what is left, prove it, go on with it, and prove it again."""
    again = compacting()
    again.disk, again.clock = disk, case.store.clock
    model = Model({queue: list(sent) for queue, sent in case.model.sent.items()})
    for _ in range(2):
        async with again.opened() as engine:
            end = engine.queue_ranges("t")[0].max_offset
            if end > len(model.sent[0]):
                assert end == len(model.sent[0]) + 1
                assert case.unanswered is not None
                model.sent[0].append(case.unanswered)
            model.check(0, await read_all(engine), gone=model.deleted(0))
            await engine.clean_now()
            model.check(0, await read_all(engine), gone=model.deleted(0))
            await put(engine, model, ("k0", b"after"))
    assert not [name for name in disk.names("compacted/t/0") if name.endswith(".new")]
    assert len(disk.names("compacted/t/0")) == 2, "one generation and its manifest"
    assert segments_on(disk)[0] > 0


def sweep(case: Case, cuts: range, modes: tuple[CrashMode, ...]) -> int:
    """Cut the power at some syncs; return how many cases were proved."""
    cases = 0
    for cut_at in cuts:
        one = case.copy()
        asyncio.run(worked(one, cut_at=cut_at))
        for alike, left in one.store.disk.crash_images(cut_at, modes):
            cases += len(alike)
            print(f"cut at sync {cut_at}, {alike}, seed {cut_at}")
            asyncio.run(checked(one, left))
    return cases


@pytest.fixture(scope="module")
def case() -> Case:
    """Return one that was prepared; tests work on copies."""
    return asyncio.run(prepared())


def test_a_power_cut_in_a_round_loses_no_newest_message(case: Case) -> None:
    total = asyncio.run(worked(case.copy()))
    assert total > 20

    cuts = range(1, total + 1, 6)
    assert sweep(case, cuts, (CrashMode.NOTHING, CrashMode.TORN)) == 2 * len(cuts)


@pytest.mark.crash
def test_a_power_cut_at_any_sync_of_rounds_and_cleaning_loses_no_newest_message(
    case: Case,
) -> None:
    total = asyncio.run(worked(case.copy()))

    cases = sweep(case, range(1, total + 1), tuple(CrashMode))

    assert cases == total * len(CrashMode)


@pytest.mark.parametrize("point", POINTS)
def test_a_process_that_dies_at_a_step_of_a_round_is_followed_by_one_that_finishes(
    case: Case, point: str
) -> None:
    one = case.copy()
    plan = Failpoints(f"{point}=error(1)")
    asyncio.run(worked(one, plan=plan))
    assert plan.fired[point] == 1, "the fault did not fire"
    for mode in (CrashMode.NOTHING, CrashMode.EVERYTHING):
        print(f"{point}, {mode}, seed 1")
        left = one.store.disk.crash_image(random.Random(1), mode)
        asyncio.run(checked(one, left))


class _Unsynced:
    """A file whose sync does nothing."""

    def __init__(self, file: File) -> None:
        self._file = file

    def sync(self) -> None:
        pass

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def test_a_file_that_counts_before_it_is_on_the_disk_is_caught(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = PartWriter.finish

    def hasty(self: PartWriter, *, begin: int, stop: int) -> int:
        assert self._file is not None
        self._file = _Unsynced(self._file)  # type: ignore[assignment]
        return finish(self, begin=begin, stop=stop)

    monkeypatch.setattr(PartWriter, "finish", hasty)
    caught = 0
    for cut_at in range(1, 60):
        one = case.copy()
        asyncio.run(worked(one, cut_at=cut_at))
        try:
            asyncio.run(
                checked(one, one.store.disk.crash_image(random.Random(0), CrashMode.NOTHING))
            )
        except AssertionError:
            caught += 1
            break
    assert caught


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(40))
def test_any_work_on_a_compacted_topic_survives_any_cuts(seed: int) -> None:
    print(f"seed {seed}")
    asyncio.run(_lived(random.Random(seed), seed))


@pytest.mark.parametrize("seed", [100, 101])
def test_some_work_on_a_compacted_topic_survives_some_cuts(seed: int) -> None:
    print(f"seed {seed}")
    asyncio.run(_lived(random.Random(seed), seed))


async def _lived(chance: random.Random, seed: int) -> None:
    """Work, lose power, and work on, six times over."""
    case = Case(compacting())
    store, cuts = case.store, 0
    for _ in range(6):
        engine = await LocalEngine.open(
            Path(), store.config, clock=store.clock, disk=store.disk, failpoints=Failpoints()
        )
        store.publish(engine)
        end = engine.queue_ranges("t")[0].max_offset
        if end > len(case.model.sent[0]):
            assert case.unanswered is not None
            case.model.sent[0].append(case.unanswered)
        assert end == len(case.model.sent[0]), "an acknowledged message is gone"
        gone = case.model.deleted(0)
        case.model.check(0, await read_all(engine), gone=gone)
        store.disk.fail_sync_from = store.disk.sync_count + chance.randrange(20, 160)
        with suppress(EngineError):
            for _ in range(60):
                await _step(case, engine, chance)
                found = await read_all(engine)
                case.model.check(0, found, gone=case.model.deleted(0))
        cuts += store.disk.sync_count >= store.disk.fail_sync_from
        left = store.disk.crash_image(chance, chance.choice(list(CrashMode)))
        store.disk.fail_sync_from = 1
        with suppress(EngineError):
            await engine.close()
        store.disk = left
    assert cuts, "the power was never cut"


async def _step(case: Case, engine: LocalEngine, chance: random.Random) -> None:
    what = chance.random()
    if what < 0.7:
        body = b"" if chance.random() < 0.15 else b"%d" % chance.randrange(10**6) * 60
        await case.put(engine, f"k{chance.randrange(12)}", body)
    elif what < 0.85:
        await engine._compactor.compact_all()
    elif what < 0.9:
        case.store.clock.advance(chance.choice((HOUR_MS, AGED_MS)))
        await send(engine, 2, topic="u")
    else:
        await engine.clean_now()
