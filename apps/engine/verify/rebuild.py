"""Make derived files of a stopped store anew, and accept what is lost. The caller holds the lock.

What is derived has a checkpoint that says what of it counts. Taking that away is one step, and
everything after it is what any start does: killed at any moment, the store opens and goes on.
"""

from enum import StrEnum

from apps.engine.broker.core import open_broker
from apps.engine.broker.replay import CHECKPOINT as STATE
from apps.engine.clock import Clock
from apps.engine.config import EngineConfig
from apps.engine.derived.index.keyindex import CHECKPOINT as INDEX
from apps.engine.derived.queueset import CHECKPOINT as QUEUES
from apps.engine.derived.timer.manifest import PATH as TIMERS
from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk
from apps.engine.files.segments import Segments
from apps.engine.log.identity import load_identity
from apps.engine.log.quarantine import open_quarantine
from apps.engine.log.retained import load_retained
from apps.engine.types import QuarantinedRange, RecoveryReport
from apps.engine.verify.missing import fill_missing


class Part(StrEnum):
    """What can be made anew from the log."""

    QUEUES = "queues"
    INDEX = "index"
    TIMERS = "timers"
    STATE = "state"


_PATHS = {Part.QUEUES: QUEUES, Part.INDEX: INDEX, Part.TIMERS: TIMERS, Part.STATE: STATE}


def rebuild(
    disk: Disk,
    parts: set[Part],
    *,
    config: EngineConfig,
    clock: Clock,
    failpoints: Failpoints,
) -> RecoveryReport:
    """Make parts anew and stop the store in order.

    Raises StoreDamaged where the log no longer has what a part is made of; the part is then left
    as it was, under another name, and put back.
    """
    if parts & {Part.TIMERS, Part.STATE} and load_retained(disk).log_start:
        raise StoreDamaged(
            "the log no longer begins at its first record; only queues and the index can be made"
        )
    aside = {}
    for part in sorted(parts):
        path = _PATHS[part]
        if disk.exists(path):
            disk.rename(path, f"{path}.old")
            disk.sync_directory(path.rpartition("/")[0])
            aside[path] = f"{path}.old"
    try:
        broker = open_broker(disk, config=config, clock=clock, failpoints=failpoints)
    except StoreDamaged:
        for path, old in aside.items():
            disk.rename(old, path)
            disk.sync_directory(path.rpartition("/")[0])
        raise
    report = broker.log.recovery
    broker.close()
    for old in aside.values():
        disk.remove(old)
    return report


def accept_loss(disk: Disk) -> int:
    """Let the store open without what is in quarantine and without segments that are gone.

    A segment that is missing or short gets its length back, with zeros: what was in it is a gap of
    the log, whose messages are counted as unreadable. Returns how many places are accepted now.
    Raises StoreDamaged where there is no store.
    """
    identity = load_identity(disk)
    if identity is None:
        raise StoreDamaged("there is no store, or its identity is missing")
    missing = fill_missing(disk, identity)
    segments = Segments(
        disk,
        "commitlog",
        segment_bytes=identity.segment_bytes,
        failpoints=Failpoints(),
        start=load_retained(disk).log_start,
    )
    try:
        quarantine = open_quarantine(disk, segments, failpoints=Failpoints())
        for base in missing:
            gap = QuarantinedRange(
                log_offset=base,
                length_bytes=identity.segment_bytes,
                reason="the segment was missing",
                is_gap=True,
                is_complete=False,
            )
            quarantine.add(gap, is_copied=False)
        return quarantine.accept()
    finally:
        segments.close()
