"""Where a log begins that was cut at the front: one small file, the authority on it.

Knows the file; not why the log was cut. It is on the disk before the first segment below is
unlinked, so whatever a crash leaves of segments below counts as deleted. With the log's start goes
where each queue begins there: the deleted records could not tell any more.
"""

from dataclasses import dataclass

from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk

PATH = "checkpoint/retention"

QueueStart = tuple[str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """The log from `log_start` on; `queues` are topic, queue and the first queue offset there.

    A queue that is not listed begins at 0.
    """

    log_start: int = 0
    queues: tuple[QueueStart, ...] = ()


def load_retained(disk: Disk) -> Retained:
    """Return what is kept: all of the log where nothing was ever deleted. Raises StoreDamaged."""
    content = atomic.load(disk, PATH)
    if content is None:
        return Retained()
    try:
        return Retained(
            log_start=int(content["log_start"]),
            queues=tuple(
                (str(topic), int(queue), int(offset)) for topic, queue, offset in content["queues"]
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreDamaged(f"{PATH} holds something else than a start") from error


def store_retained(disk: Disk, retained: Retained, *, failpoints: Failpoints) -> None:
    """Replace the file, on the disk when this returns.

    Raises StoreFull, WriteFailed or SyncFailed.
    """
    content: dict[str, object] = {
        "log_start": retained.log_start,
        "queues": [list(row) for row in retained.queues],
    }
    atomic.replace(disk, PATH, content, failpoints=failpoints)
