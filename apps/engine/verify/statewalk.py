"""Consumer state: the checkpoint loads, the journal behind it applies, offsets lie in queues."""

from collections.abc import Iterator
from contextlib import suppress

from apps.engine.broker.journal import Assigned, decode_event
from apps.engine.broker.replay import CHECKPOINT, COPY
from apps.engine.broker.state import ConsumerState
from apps.engine.clock import Clock, SystemClock
from apps.engine.codec.batch import starts_of
from apps.engine.codec.layout import JOURNAL_TOPIC
from apps.engine.codec.record import Record, decode_record
from apps.engine.codec.scan import queue_runs
from apps.engine.derived.queueset import CHECKPOINT as QUEUES
from apps.engine.errors import EngineError
from apps.engine.files import atomic
from apps.engine.log.tail import Frame
from apps.engine.verify.findings import Finding, Kind
from apps.engine.verify.store import Store

_JOURNAL = f"topic {JOURNAL_TOPIC}"


def state(store: Store, *, clock: Clock | None = None) -> Iterator[Finding]:
    """Build consumer state as a start would, and compare it with the queues of the log."""
    try:
        atomic.load(store.disk, COPY)
    except EngineError as error:
        yield Finding(kind=Kind.STATE, place=COPY, detail=str(error))
    try:
        content = atomic.load(store.disk, CHECKPOINT)
    except EngineError as error:
        yield Finding(kind=Kind.STATE, place=CHECKPOINT, detail=str(error))
        return
    # The queues' checkpoint is written before this one, so it knows as much of the log or more.
    with suppress(EngineError):
        queues = atomic.load(store.disk, QUEUES)
        store.reach(0 if queues is None else int(queues["dispatched_offset"]))
    built = ConsumerState(clock or SystemClock())
    assigned: dict[int, tuple[Assigned, int]] = {}
    ends = {(topic, queue): offset for topic, queue, offset in store.retained.queues}
    journal: list[Record] = []
    # History in the checkpoint names journal records of long ago, so all are read once.
    for frame in store.frames():
        for record in _records_of(frame, ends):
            try:
                event = decode_event(record.body)
            except EngineError as error:
                place = f"{_JOURNAL} offset {record.queue_offset}"
                yield Finding(kind=Kind.STATE, place=place, detail=str(error))
                continue
            if isinstance(event, Assigned):
                assigned[record.queue_offset] = (event, record.born_time_ms)
            if content is None or record.queue_offset >= int(content["journal_offset"]):
                journal.append(record)
    try:
        if content is not None:
            built.load(content, assigned.get)
        for record in journal:
            built.apply(
                decode_event(record.body), number=record.queue_offset, at_ms=record.born_time_ms
            )
    except (EngineError, KeyError, TypeError, ValueError) as error:
        yield Finding(kind=Kind.STATE, place=CHECKPOINT, detail=f"cannot be applied: {error!r}")
        return
    end = ends.get((JOURNAL_TOPIC, 0), 0)
    if content is not None and int(content["journal_offset"]) > end and not len(store.quarantine):
        detail = f"ends at journal offset {content['journal_offset']}, the journal at {end}"
        yield Finding(kind=Kind.STATE, place=CHECKPOINT, detail=detail)
    yield from _offsets(built, ends, store)


def _records_of(frame: Frame, ends: dict[tuple[str, int], int]) -> list[Record]:
    """Note where queues end, and return the frame's records of the journal."""
    starts = starts_of(frame.header.sizes)
    found = []
    for run in queue_runs(frame.payload, starts):
        ends[run.topic, run.queue] = run.first_queue_offset + len(run.rows)
        if run.topic == JOURNAL_TOPIC:
            rows = [row for row in run.rows.tolist() if row not in frame.bad_rows]
            found += [decode_record(frame.payload, int(starts[row])) for row in rows]
    return found


def _offsets(
    built: ConsumerState, ends: dict[tuple[str, int], int], store: Store
) -> Iterator[Finding]:
    for (group, topic, queue), progress in sorted(built.progress.items()):
        lost = store.quarantine.lost(topic, queue)
        end = max(ends.get((topic, queue), 0), int(lost[-1]) + 1 if len(lost) else 0)
        if not 0 <= progress.floor <= progress.cursor <= end and store.segments.start == 0:
            detail = f"group {group} is at {progress.floor} to {progress.cursor} of {end}"
            yield Finding(kind=Kind.STATE, place=f"queue {topic}/{queue}", detail=detail)
