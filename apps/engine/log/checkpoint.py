"""The log's checkpoint: how far it is known to be on the disk. Knows one small file."""

from dataclasses import asdict, dataclass

from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk

PATH = "checkpoint/log"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheckpoint:
    """What holds of the log for certain."""

    epoch: int
    log_start: int
    """The log began here; a later start means that segments are missing."""
    synced_offset: int
    """Everything below was synced; always the end of a frame, or where the log starts."""
    clean: bool
    """The owner stopped on purpose and nothing lies behind `synced_offset`."""
    store_time_ms: int
    """No frame below `synced_offset` has a later store time; the next one's is not earlier."""


def load_checkpoint(disk: Disk) -> LogCheckpoint | None:
    """Return the checkpoint, None when there is none. Raises StoreDamaged."""
    content = atomic.load(disk, PATH)
    if content is None:
        return None
    try:
        return LogCheckpoint(
            epoch=int(content["epoch"]),
            log_start=int(content.get("log_start", 0)),
            synced_offset=int(content["synced_offset"]),
            clean=content["clean"] is True,
            store_time_ms=int(content.get("store_time_ms", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreDamaged(f"{PATH} holds something else than a checkpoint") from error


def store_checkpoint(disk: Disk, checkpoint: LogCheckpoint, *, failpoints: Failpoints) -> None:
    """Replace the checkpoint, on the disk when this returns."""
    atomic.replace(disk, PATH, asdict(checkpoint), failpoints=failpoints)
