"""Which runs count, and from which parcel on waiting messages are in the log only.

Knows one small file. It is replaced whole, so a flush, a merge and the end of a run are one step.
"""

from dataclasses import dataclass

from apps.engine.derived.timer.runfile import RunPlace
from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk

PATH = "timer/manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`parcels_from` is the first parcel that must be read from the log at a start.

    `epochs` are (first number, epoch) of the messages below it, ascending; of the oldest ones the
    epoch may be forgotten. `next_run` is a number that no run had.
    """

    parcels_from: int = 0
    next_run: int = 0
    runs: tuple[RunPlace, ...] = ()
    epochs: tuple[tuple[int, int], ...] = ()


def load_manifest(disk: Disk) -> Manifest:
    """Return the manifest; an empty one where there is none. Raises StoreDamaged."""
    content = atomic.load(disk, PATH)
    if content is None:
        return Manifest()
    try:
        return Manifest(
            parcels_from=int(content["parcels_from"]),
            next_run=int(content["next_run"]),
            runs=tuple(
                RunPlace(
                    number=int(number),
                    index_start=int(start),
                    index_bytes=int(size_bytes),
                    index_crc=int(crc),
                )
                for number, start, size_bytes, crc in content["runs"]
            ),
            epochs=tuple((int(number), int(epoch)) for number, epoch in content["epochs"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreDamaged(f"{PATH} holds something else than runs") from error


def store_manifest(disk: Disk, manifest: Manifest, *, failpoints: Failpoints) -> None:
    """Replace the manifest, on the disk when this returns. Raises as `atomic.replace` does."""
    content: dict[str, object] = {
        "parcels_from": manifest.parcels_from,
        "next_run": manifest.next_run,
        "runs": [
            [run.number, run.index_start, run.index_bytes, run.index_crc] for run in manifest.runs
        ],
        "epochs": [list(pair) for pair in manifest.epochs],
    }
    atomic.replace(disk, PATH, content, failpoints=failpoints)
