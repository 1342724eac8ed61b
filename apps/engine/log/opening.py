"""Bring a store's log from the disk to where appends go on. Knows the order of the steps.

The order is what makes a crash between any two of them harmless: a new store gets its identity and
its epoch before its first segment; an old one is examined before anything is changed, then gets
its epoch, then is repaired, and only then is its end written down.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from apps.engine.clock import Clock
from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk
from apps.engine.files.segments import Segments
from apps.engine.log.checkpoint import LogCheckpoint, load_checkpoint, store_checkpoint
from apps.engine.log.identity import (
    Identity,
    create_identity,
    load_epoch,
    load_identity,
    store_epoch,
)
from apps.engine.log.quarantine import Quarantine, open_quarantine
from apps.engine.log.recovery import Findings, examine, repair
from apps.engine.log.retained import load_retained
from apps.engine.types import RecoveryReport

DIRECTORY = "commitlog"

# Starts work, here or in a thread, and returns what waits for it and raises what it raised.
Beside = Callable[[Callable[[], None]], Callable[[], None]]


def at_once(work: Callable[[], None]) -> Callable[[], None]:
    """Do the work before anything else; there is nothing to wait for then."""
    work()
    return _nothing


def _nothing() -> None:
    """Wait for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedLog:
    """A log that disk and memory agree on."""

    segments: Segments
    store_id: bytes
    store_time_ms: int
    """No frame has a later one."""
    recovery: RecoveryReport
    quarantine: Quarantine
    scanned_from: int
    """Everything from here to the log's end was verified just now."""
    settled: Callable[[], None]
    """Waits until the disk has the log up to its end: before it nothing may be written to it."""


def open_log(
    disk: Disk, *, segment_bytes: int, clock: Clock, failpoints: Failpoints, beside: Beside
) -> OpenedLog:
    """Make or recover the log. An existing store keeps the segment size it was made with.

    Writing the tail again is given to `beside`: it changes no byte that a reader sees. Raises
    StoreDamaged, ForeignSegment or UnknownFormat with nothing changed on the disk.
    """
    identity = load_identity(disk)
    if identity is None:
        if disk.names(DIRECTORY):
            raise StoreDamaged(f"{DIRECTORY} is there and the store's identity is not")
        identity = create_identity(disk, segment_bytes=segment_bytes, failpoints=failpoints)
    segments = Segments(
        disk,
        DIRECTORY,
        segment_bytes=identity.segment_bytes,
        failpoints=failpoints,
        start=load_retained(disk).log_start,
    )
    try:
        quarantine = open_quarantine(disk, segments, failpoints=failpoints)
        return _open(disk, identity, segments, quarantine, clock, failpoints, beside)
    except BaseException:
        segments.close()
        raise


def _open(
    disk: Disk,
    identity: Identity,
    segments: Segments,
    quarantine: Quarantine,
    clock: Clock,
    failpoints: Failpoints,
    beside: Beside,
) -> OpenedLog:
    last_epoch = load_epoch(disk)
    checkpoint = load_checkpoint(disk)
    _check_agreement(segments, last_epoch, checkpoint, load_retained(disk).log_start)
    epoch = (last_epoch or 0) + 1
    if segments.start == segments.end:
        return _start(disk, identity, segments, quarantine, epoch, failpoints)
    known = checkpoint or LogCheckpoint(
        epoch=0, log_start=0, synced_offset=segments.start, clean=False, store_time_ms=0
    )
    findings = examine(
        segments, known, store_id=identity.store_id, epoch=epoch - 1, quarantine=quarantine
    )
    store_epoch(disk, epoch, failpoints=failpoints)
    _settle_names(disk, segments)
    for found in findings.damage:
        # Before the tail is written again: the copy has the bytes as they were found.
        quarantine.add(replace(found, found_ms=clock.wall_ms()))
    report = RecoveryReport(
        epoch=epoch,
        clean=known.clean and findings.end == findings.start and not findings.cut_bytes,
        scanned_bytes=findings.end - findings.start,
        scanned_records=findings.records,
        cut_bytes=findings.cut_bytes,
        cut_reason=findings.reason if findings.cut_bytes else "",
        log_end=findings.end,
    )

    def settle() -> None:
        repair(segments, findings)
        _store(disk, segments, report, findings, failpoints)

    return OpenedLog(
        segments=segments,
        store_id=identity.store_id,
        store_time_ms=findings.store_time_ms,
        recovery=report,
        quarantine=quarantine,
        scanned_from=findings.start,
        settled=beside(settle),
    )


def _start(
    disk: Disk,
    identity: Identity,
    segments: Segments,
    quarantine: Quarantine,
    epoch: int,
    failpoints: Failpoints,
) -> OpenedLog:
    """Give a store that never held a message its first segment."""
    store_epoch(disk, epoch, failpoints=failpoints)
    disk.make_directory(DIRECTORY)
    _settle_names(disk, segments)
    segments.extend(segments.segment_bytes)
    report = RecoveryReport(
        epoch=epoch,
        clean=True,
        scanned_bytes=0,
        scanned_records=0,
        cut_bytes=0,
        cut_reason="",
        log_end=0,
    )
    nothing = Findings(
        start=0, synced_offset=0, end=0, records=0, store_time_ms=0, leftovers=(), reason=""
    )
    _store(disk, segments, report, nothing, failpoints)
    return OpenedLog(
        segments=segments,
        store_id=identity.store_id,
        store_time_ms=0,
        recovery=report,
        quarantine=quarantine,
        scanned_from=0,
        settled=_nothing,
    )


def _store(
    disk: Disk,
    segments: Segments,
    report: RecoveryReport,
    findings: Findings,
    failpoints: Failpoints,
) -> None:
    """Write down where the log ends, now that the disk has it."""
    checkpoint = LogCheckpoint(
        epoch=report.epoch,
        log_start=segments.start,
        synced_offset=report.log_end,
        clean=False,
        store_time_ms=findings.store_time_ms,
    )
    store_checkpoint(disk, checkpoint, failpoints=failpoints)


def _check_agreement(
    segments: Segments, last_epoch: int | None, checkpoint: LogCheckpoint | None, log_start: int
) -> None:
    """Raise StoreDamaged when what is there cannot have come from crashes alone."""
    has_segments = segments.start < segments.end
    if last_epoch is None and (has_segments or checkpoint is not None):
        raise StoreDamaged("the store holds a log and not the epoch of its last opening")
    if checkpoint is None:
        return
    if checkpoint.epoch > (last_epoch or 0):
        raise StoreDamaged(f"the checkpoint is of epoch {checkpoint.epoch}, after the last one")
    if not has_segments:
        raise StoreDamaged(f"the log had {checkpoint.synced_offset} bytes and has no segment")
    if checkpoint.log_start > log_start:
        raise StoreDamaged(f"the log was cut at {checkpoint.log_start}, its own file is missing")
    if segments.start > log_start:
        raise StoreDamaged(f"the log began at {log_start}, now at {segments.start}")


def _settle_names(disk: Disk, segments: Segments) -> None:
    """Put on the disk what a killed process had named and not yet synced."""
    disk.sync_directory("")
    segments.discard_unfinished()
