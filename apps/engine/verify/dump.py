"""Frames and records as values to be shown: whatever bytes they hold, the text is printable."""

from collections.abc import Iterator

from apps.engine.codec.batch import starts_of
from apps.engine.codec.layout import FRAME_TOPIC
from apps.engine.codec.record import Record, decode_record
from apps.engine.errors import EngineError
from apps.engine.log.damage import starts_before
from apps.engine.log.tail import Frame
from apps.engine.types import QuarantinedRange
from apps.engine.verify.compactedwalk import kept_records
from apps.engine.verify.store import Store

Shown = dict[str, object]


def dump(
    store: Store,
    *,
    start: int | None = None,
    stop: int | None = None,
    topic: str | None = None,
    queue: int | None = None,
    body_bytes_max: int = 64,
) -> Iterator[Shown]:
    """Return frames and their records from the frame that holds log offset `start` on, in order.

    Up to the last frame that starts before `stop`. With a topic, or a queue of it, only records of
    it. Damage on the way is shown as such. Bodies are cut to `body_bytes_max`.
    """
    found: list[QuarantinedRange] = []
    for frame in store.frames(_begin(store, start), stop, found=found.append):
        yield from map(_damage, found)
        found.clear()
        if start is not None and frame.end <= start:
            continue
        if topic is None:
            yield _frame(frame)
        for row, at in enumerate(starts_of(frame.header.sizes).tolist()):
            shown = _record(frame, row, at, body_bytes_max)
            is_meant = topic is None or shown.get("topic") == printable(topic)
            if is_meant and queue in (None, shown.get("queue")):
                yield shown
    yield from map(_damage, found)


def dump_kept(
    store: Store, *, topic: str | None = None, queue: int | None = None, body_bytes_max: int = 64
) -> Iterator[Shown]:
    """Return what compaction keeps beside the log, queue by queue, and what of it is damaged."""
    for part, found in kept_records(store):
        if topic not in (None, part.topic) or queue not in (None, part.queue):
            continue
        if isinstance(found, Record):
            shown = _fields(found, max(0, body_bytes_max))
            yield {"kind": "kept", "log_offset": found.log_offset, **shown}
        else:
            yield {"kind": "damage", "log_offset": -1, "reason": printable(str(found))}


def printable(text: str) -> str:
    """Return a text with everything escaped that a terminal could take for a command."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _begin(store: Store, start: int | None) -> int:
    if start is None or start <= store.segments.start:
        return store.segments.start
    within = min(start, store.end)
    if within >= store.segments.end:
        return store.end
    return next(starts_before(store.segments, within + 1, store_id=store.identity.store_id))


def _frame(frame: Frame) -> Shown:
    header = frame.header
    return {
        "kind": "frame",
        "log_offset": header.log_offset,
        "end": header.end,
        "epoch": header.epoch,
        "synced_log_offset": header.synced_log_offset,
        "store_time_ms": header.store_time_ms,
        "records": len(header.sizes),
        "payload_bytes": header.payload_bytes,
    }


def _record(frame: Frame, row: int, at: int, body_bytes_max: int) -> Shown:
    place: Shown = {"kind": "record", "log_offset": frame.payload_log_offset + at}
    if row in frame.bad_rows:
        return {**place, "damaged": "its body does not have its checksum"}
    try:
        record = decode_record(frame.payload, at)
    except EngineError as error:
        return {**place, "damaged": printable(str(error))}
    return {**place, **_fields(record, body_bytes_max)}


def _fields(record: Record, body_bytes_max: int) -> Shown:
    body = record.body[:body_bytes_max]
    return {
        "topic": printable(record.topic),
        "queue": record.queue,
        "queue_offset": record.queue_offset,
        "size_bytes": record.size_bytes,
        "born_time_ms": record.born_time_ms,
        "store_time_ms": record.store_time_ms,
        "reconsume_times": record.reconsume_times,
        "message_id": printable(record.message_id),
        "properties": {
            printable(name): printable(value) for name, value in record.properties.items()
        },
        "body_bytes": len(record.body),
        "body": printable(body.decode("utf-8", "backslashreplace")),
    }


def _damage(found: QuarantinedRange) -> Shown:
    return {
        "kind": "damage",
        "log_offset": found.log_offset,
        "end": found.end,
        "reason": found.reason,
        "lost": [
            {
                "topic": printable(one.topic),
                "queue": one.queue,
                "first": one.first,
                "last": one.last,
            }
            for one in found.lost
            if one.topic != FRAME_TOPIC.decode()
        ],
    }
