"""The log itself: every frame by its checksum, every record by its own, numbers without a hole."""

from collections.abc import Iterator

import numpy as np

from apps.engine.codec.batch import starts_of
from apps.engine.codec.bodies import has_bodies
from apps.engine.codec.scan import queue_runs
from apps.engine.codec.windows import window
from apps.engine.errors import EngineError
from apps.engine.log.recovery import check_segments
from apps.engine.log.tail import Frame
from apps.engine.types import QuarantinedRange
from apps.engine.verify.findings import Finding, Kind
from apps.engine.verify.store import Store


def log(store: Store) -> Iterator[Finding]:
    """Verify the log up to its end. What is in quarantine already is a finding that is known."""
    try:
        check_segments(store.segments, store.identity.store_id)
    except EngineError as error:
        yield Finding(kind=Kind.LOG, place="commitlog", detail=str(error))
    for known in store.quarantine.ranges:
        yield _finding(known, is_known=True)
    pending: list[QuarantinedRange] = []
    ends: dict[tuple[str, int], int] = {}
    store_time_ms = 0
    try:
        for frame in store.frames(found=pending.append):
            yield from (_finding(one, is_known=False) for one in pending)
            has_gap = bool(pending) or bool(store.quarantine.within(0, frame.log_offset))
            pending.clear()
            yield from _records(frame)
            yield from _numbers(frame, ends, has_gap=has_gap)
            if frame.header.store_time_ms < store_time_ms:
                yield _at(frame, "its store time is before that of an earlier frame")
            store_time_ms = max(store_time_ms, frame.header.store_time_ms)
    except EngineError as error:
        yield Finding(kind=Kind.LOG, place="commitlog", detail=str(error))
    yield from (_finding(one, is_known=False) for one in pending)
    if store.end < store.checkpoint.synced_offset:
        detail = f"the log was on the disk up to {store.checkpoint.synced_offset}"
        yield Finding(kind=Kind.LOG, place=f"log offset {store.end}", detail=detail)


def _records(frame: Frame) -> Iterator[Finding]:
    sizes = frame.header.sizes
    starts = starts_of(sizes)
    ints, longs = window(frame.payload, ">i4"), window(frame.payload, ">i8")
    is_right = (
        (ints[starts] == sizes)
        & (longs[starts + 28] == starts + frame.payload_log_offset)
        & (longs[starts + 56] == frame.header.store_time_ms)
    )
    is_right &= has_bodies(frame.payload, starts, sizes)
    is_right[list(frame.bad_rows)] = True  # The quarantine, or a finding before, has these.
    for row in np.flatnonzero(~is_right).tolist():
        yield _at(frame, f"record {row} contradicts its frame")


def _numbers(frame: Frame, ends: dict[tuple[str, int], int], *, has_gap: bool) -> Iterator[Finding]:
    """Each queue's offsets go on where they ended, but behind a gap and where the log begins."""
    for run in queue_runs(frame.payload, starts_of(frame.header.sizes)):
        key = (run.topic, run.queue)
        end = ends.get(key)
        is_behind_gap = has_gap and end is not None and end < run.first_queue_offset
        if end is not None and end != run.first_queue_offset and not is_behind_gap:
            yield _at(
                frame,
                f"queue {run.topic}/{run.queue} goes on at {run.first_queue_offset}, not {end}",
            )
        ends[key] = run.first_queue_offset + len(run.rows)


def _at(frame: Frame, detail: str) -> Finding:
    return Finding(kind=Kind.LOG, place=f"log offset {frame.log_offset}", detail=detail)


def _finding(found: QuarantinedRange, *, is_known: bool) -> Finding:
    lost = sum(map(len, found.lost))
    what = f"{found.length_bytes} bytes, {lost} messages: {found.reason}"
    return Finding(
        kind=Kind.LOG,
        place=f"log offset {found.log_offset}",
        detail=f"{what}; in quarantine" if is_known else what,
        is_known=is_known,
    )
