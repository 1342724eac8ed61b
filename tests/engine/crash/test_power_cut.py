"""Cut the power at every sync, in every way a disk can lose pages; nothing acknowledged is lost.

Shows lost, torn and reordered pages, undone names and crashes in the middle of recovery. Cannot
show what a real kernel or drive does; the fault model is at the top of the simulated disk.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from apps.engine.errors import EngineError, SyncFailed, WriteFailed
from apps.engine.log import opening, tail
from apps.engine.log.commitlog import CommitLog
from apps.engine.testing.contracts.log import SMALL, bodies_of, run_of
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from tests.rounds import report, rounds

# The large bodies make the log roll about every eighth frame.
BODY_BYTES = (20, 300, 4_000, 7_500)
POWER_CUTS = [mode for mode in CrashMode if mode is not CrashMode.EVERYTHING]


class AnyChecksum:
    """Equals every checksum."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, data: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


class Violation(AssertionError):
    """A promise of the log was broken; the text says how to see it again."""


@dataclass
class History:
    """What a client knows: all it sent, in order, and how much of it was acknowledged."""

    sent: list[bytes] = field(default_factory=list)
    acked: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    def check(self, log: CommitLog) -> None:
        """Assert that the log is what was sent, from the first on, and has all that was acked."""
        found = bodies_of(log)
        assert found == self.sent[: len(found)], "the log is not a prefix of what was sent"
        assert len(found) >= self.acked, f"{self.acked - len(found)} acknowledged are lost"


def opened(disk: SimulatedDisk) -> CommitLog:
    return CommitLog.open(disk, config=SMALL, clock=ManualClock())


def killed(disk: SimulatedDisk, rng: random.Random) -> SimulatedDisk:
    """Return the disk after a kill, with the faults that were ordered still to come."""
    found = disk.crash_image(rng, CrashMode.EVERYTHING)
    found.sync_count, found.write_count = disk.sync_count, disk.write_count
    found.fail_sync_from, found.cut_at_sync = disk.fail_sync_from, disk.cut_at_sync
    found.fail_write_from, found.faults = disk.fail_write_from, disk.faults
    return found


def work(
    disk: SimulatedDisk, rng: random.Random, *, rounds: int = 24, acks_early: bool = False
) -> tuple[SimulatedDisk, History]:
    """Send, sync, take checkpoints, stop, be killed, start again; until the disk fails."""
    history = History()
    try:
        log = opened(disk)
        for number in range(rounds):
            for _ in range(rng.randint(1, 3)):
                bodies = [
                    b"%d/%d:" % (number, part) + rng.randbytes(rng.choice(BODY_BYTES))
                    for part in range(rng.randint(1, 2))
                ]
                # Sent before the outcome is known: after an error it may be there or not.
                history.sent += bodies
                log.append([run_of(bodies)])
            if acks_early:
                history.acked = len(history.sent)
            if rng.random() < 0.8:
                log.sync()
                history.acked = len(history.sent)
            match rng.choice(["go on", "go on", "checkpoint", "stop", "kill"]):
                case "checkpoint":
                    log.checkpoint()
                case "stop":
                    log.close(clean=True)
                    history.acked = len(history.sent)
                    log = opened(disk)
                    assert log.recovery.clean
                case "kill":
                    disk = killed(disk, rng)
                    log = opened(disk)
                    assert len(bodies_of(log)) == len(history.sent), "a kill lost something"
                    history.seen["killed"] += 1
    except (SyncFailed, WriteFailed):
        history.seen["failed"] += 1
    return disk, history


def sync_points(seed: int) -> int:
    """Return how many syncs the workload of a seed makes when none fails."""
    disk, history = work(SimulatedDisk(), random.Random(seed))
    assert not history.seen["failed"]
    assert len(disk.names(opening.DIRECTORY)) >= 3
    return disk.sync_count


def cut_at(seed: int, sync: int, *, acks_early: bool = False) -> tuple[SimulatedDisk, History]:
    """Run the workload of a seed up to the given sync, which fails as all later ones do."""
    disk = SimulatedDisk()
    disk.fail_sync_from = sync
    disk, history = work(disk, random.Random(seed), acks_early=acks_early)
    assert disk.faults["sync"], "the fault did not fire"
    return disk, history


def survive(
    image: SimulatedDisk, history: History, rng: random.Random, *, crashes_in_recovery: int
) -> None:
    """Recover, crashing on the way, and check; go on writing, cut the power again, and check."""
    for _ in range(crashes_in_recovery):
        image.fail_sync_from = image.sync_count + rng.randint(1, 12)
        try:
            history.check(opened(image))
        except SyncFailed:
            history.seen["crash in recovery"] += 1
        image.fail_sync_from = None
        image = image.crash_image(rng, rng.choice(list(CrashMode)))

    log = opened(image)
    history.check(log)
    kept = bodies_of(log)
    if log.recovery.cut_bytes:
        history.seen["torn tail"] += 1

    # Readers may have seen what was recovered, so it must not be taken back by a second cut.
    again = image.crash_image(rng, CrashMode.NOTHING)
    log = opened(again)
    assert bodies_of(log) == kept, "a recovered message was taken back"
    if log.recovery.cut_bytes:
        # A sync of the zeros failed in an earlier recovery: the disk still has what was cut, and
        # only its epoch tells that it is no part of the log.
        history.seen["risen tail"] += 1

    bodies = [rng.randbytes(5_000) for _ in range(15)]
    for body in bodies:
        log.append([run_of([body])])
    log.sync()
    log = opened(again.crash_image(rng, rng.choice(POWER_CUTS)))
    assert bodies_of(log) == kept + bodies, "what was written after recovery is lost"


def sweep(
    seed: int,
    mode: CrashMode,
    *,
    step: int = 1,
    crashes_in_recovery: int = 0,
    acks_early: bool = False,
) -> Counter[str]:
    """Cut at every `step`th sync; fail with what replays the case. Return what was seen."""
    seen: Counter[str] = Counter()
    first = 1 + seed % step
    for sync in range(first, sync_points(seed) + 1, step):
        disk, history = cut_at(seed, sync, acks_early=acks_early)
        rng = random.Random(f"{seed}/{sync}/{mode}")
        image = disk.crash_image(rng, mode)
        try:
            survive(image, history, rng, crashes_in_recovery=crashes_in_recovery)
        except (AssertionError, EngineError) as error:
            raise Violation(f"seed={seed} sync={sync} mode={mode}: {error}") from error
        seen += history.seen
        seen["cases"] += 1
    return seen


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", list(CrashMode))
def test_a_power_cut_never_loses_what_was_acknowledged(mode: CrashMode, seed: int) -> None:
    seen = sweep(seed, mode, step=3)

    assert seen["cases"] >= 15
    if mode in {CrashMode.PREFIX, CrashMode.PAGES, CrashMode.TORN, CrashMode.ONE_MISSING}:
        assert seen["torn tail"], "the sweep never tore a tail"


@pytest.mark.parametrize("mode", [CrashMode.PAGES, CrashMode.TORN, CrashMode.METADATA])
def test_recovery_may_itself_be_cut_off_five_times(mode: CrashMode) -> None:
    seen = sweep(7, mode, step=4, crashes_in_recovery=5)

    assert seen["crash in recovery"] >= seen["cases"]


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(100, 100 + rounds(5)))
@pytest.mark.parametrize("mode", list(CrashMode))
def test_a_power_cut_never_loses_what_was_acknowledged_long(mode: CrashMode, seed: int) -> None:
    seen = sweep(seed, mode, crashes_in_recovery=seed % 4)

    assert seen["cases"] >= 30
    report(
        f"S1 S2 log {mode}",
        seed=seed,
        cuts=seen["cases"],
        crashes_in_recovery=seen["crash in recovery"],
        torn_tails=seen["torn tail"],
        acked_lost=0,
    )


def test_every_single_prefix_and_every_single_missing_page_is_survived() -> None:
    cuts = [cut_at(3, sync) for sync in range(1, sync_points(3) + 1, 4)]
    disk, history = max(cuts, key=lambda cut: cut[0].pending_count)
    assert disk.pending_count >= 10

    for mode, more in ((CrashMode.PREFIX, 1), (CrashMode.ONE_MISSING, 0)):
        for keep in range(disk.pending_count + more):
            rng = random.Random(f"{mode}/{keep}")
            survive(disk.crash_image(rng, mode, keep=keep), history, rng, crashes_in_recovery=1)


@pytest.mark.parametrize("seed", range(2))
def test_a_failed_write_loses_nothing_that_was_acknowledged(seed: int) -> None:
    disk, _ = work(SimulatedDisk(), random.Random(seed))

    for write in range(1, disk.write_count + 1, 3):
        broken = SimulatedDisk()
        broken.fail_write_from = write
        broken, history = work(broken, random.Random(seed))
        assert broken.faults["write"], "the fault did not fire"
        rng = random.Random(f"{seed}/{write}")
        broken.fail_write_from = None
        mode = rng.choice(list(CrashMode))
        survive(broken.crash_image(rng, mode), history, rng, crashes_in_recovery=0)


# --- canaries: the sweep must catch what is wrong on purpose -------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_canary_a_log_that_acknowledges_before_the_sync_is_caught(seed: int) -> None:
    with pytest.raises(Violation, match="acknowledged are lost"):
        sweep(seed, CrashMode.NOTHING, step=4, acks_early=True)


@pytest.mark.parametrize("seed", range(3))
def test_canary_a_recovery_that_trusts_the_page_cache_is_caught(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "repair", lambda segments, findings: None)

    with pytest.raises(Violation, match=r"are lost|taken back|nothing was written"):
        sweep(seed, CrashMode.EVERYTHING)


@pytest.mark.parametrize("seed", range(3))
def test_canary_a_recovery_that_takes_whatever_reads_as_records_is_caught(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "crc32", AnyChecksum)

    with pytest.raises(Violation):
        sweep(seed, CrashMode.PAGES, step=2)


@pytest.mark.parametrize("seed", range(3))
def test_canary_names_that_are_not_synced_are_caught(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedDisk, "sync_directory", lambda disk, path: None)

    with pytest.raises(Violation, match="lost"):
        sweep(seed, CrashMode.METADATA, step=2)


@pytest.mark.parametrize("seed", range(3))
def test_canary_a_disk_that_lies_about_its_syncs_is_caught(seed: int) -> None:
    disk = SimulatedDisk()
    disk.cut_at_sync = sync_points(seed) // 2
    disk, history = work(disk, random.Random(seed))
    image = disk.crash_image(random.Random(seed), CrashMode.NOTHING)

    with pytest.raises(AssertionError, match="acknowledged are lost"):
        history.check(opened(image))
    assert disk.faults["lie"], "the fault did not fire"
