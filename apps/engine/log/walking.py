"""Walk what was on the disk once: frame after frame, over what is damaged. Knows the quarantine."""

from collections.abc import Callable, Iterator

from apps.engine.files.segments import Segments
from apps.engine.log.damage import assess
from apps.engine.log.quarantine import Quarantine
from apps.engine.log.tail import Frame, FrameReader, InvalidFrame
from apps.engine.types import QuarantinedRange


def walk(
    segments: Segments,
    *,
    start: int,
    stop: int,
    store_id: bytes,
    quarantine: Quarantine,
    found: Callable[[QuarantinedRange], object],
) -> Iterator[Frame]:
    """Iterate over the frames from `start`, the start of one, up to `stop`, the end of one.

    Gaps that are known are jumped over. What is found to be damaged is told to `found`, before
    any frame behind it comes. A payload is a view of the bytes read, valid for as long as it is
    kept. Raises StoreDamaged where a segment is missing.
    """
    reader = FrameReader(
        segments, log_offset=start, store_id=store_id, epoch_min=0, is_lenient=True
    )
    while reader.log_offset < stop:
        known = quarantine.gap_at(reader.log_offset)
        if known is not None:
            reader.log_offset = known.end
            continue
        try:
            frame = reader.next()
        except InvalidFrame as error:
            # A filler may be the last thing in the log: a crash came before the frame behind it.
            if error.log_offset >= stop:
                return
            if quarantine.gap_at(error.log_offset) is not None:
                continue
            assessed = assess(
                segments, error.log_offset, stop, store_id=store_id, reason=error.reason
            )
            for one in assessed.ranges:
                found(one)
            reader.log_offset = assessed.resume
            continue
        if frame.bad_rows and not quarantine.touching(frame.log_offset, frame.end):
            reason = "a frame's records do not have their checksum"
            for one in assess(
                segments, frame.log_offset, stop, store_id=store_id, reason=reason
            ).ranges:
                found(one)
        yield frame
