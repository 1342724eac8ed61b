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
    any frame behind it comes. A frame is valid until the next is asked for. Raises StoreDamaged
    where a segment is missing.
    """
    for stretch in stretches(
        segments, start=start, stop=stop, store_id=store_id, quarantine=quarantine, found=found
    ):
        yield from stretch


def stretches(
    segments: Segments,
    *,
    start: int,
    stop: int,
    store_id: bytes,
    quarantine: Quarantine,
    found: Callable[[QuarantinedRange], object],
) -> Iterator[list[Frame]]:
    """Iterate as `walk` does, over as many frames at once as were read at once."""
    reader = FrameReader(
        segments, log_offset=start, store_id=store_id, epoch_min=0, is_lenient=True
    )
    while reader.log_offset < stop:
        known = quarantine.gap_at(reader.log_offset)
        if known is not None:
            reader.log_offset = known.end
            continue
        try:
            frames = reader.read_on(stop)
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
        # One with bad bodies begins another stretch: they are told before it comes, not earlier.
        first = 0
        for number, frame in enumerate(frames):
            if frame.log_offset >= stop:
                frames = frames[:number]
                break
            if frame.bad_rows and not quarantine.touching(frame.log_offset, frame.end):
                if frames[first:number]:
                    yield frames[first:number]
                first = number
                reason = "a frame's records do not have their checksum"
                for one in assess(
                    segments, frame.log_offset, stop, store_id=store_id, reason=reason
                ).ranges:
                    found(one)
        if frames[first:]:
            yield frames[first:]
