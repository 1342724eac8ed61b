"""The files of a store that another process writes: its log as listed last, and what is damaged.

Knows identity, segments and the quarantine; no queues.
"""

from pathlib import Path

from apps.engine.errors import InvalidArgument, StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files.segments import Segments
from apps.engine.log.identity import Identity, load_identity
from apps.engine.log.quarantine import Quarantine, open_quarantine
from apps.engine.log.recovery import check_segments
from apps.engine.log.retained import Retained, load_retained
from apps.engine.offline.disk import ReadOnlyDisk

_LOG = "commitlog"
# Retention may remove what was just listed; each try finds a later start.
_TRIES = 5


class OpenedStore:
    """One store, open for reading; `refresh` lists it again."""

    def __init__(self, path: Path) -> None:
        """Open the store in a directory.

        Raises InvalidArgument where there is none, StoreDamaged, ForeignSegment or UnknownFormat.
        """
        if not path.is_dir():
            raise InvalidArgument(f"{path} is no directory")
        self.disk = ReadOnlyDisk(path)
        self.identity = _identity(self.disk, path)
        self._names: list[str] = []
        self.retained = Retained()
        self.segments: Segments = self._listed()
        self.quarantine: Quarantine = self._quarantine()

    def refresh(self) -> None:
        """List the log again. Raises StoreDamaged or ForeignSegment."""
        retained = load_retained(self.disk)
        if retained != self.retained or self._log_names() != self._names:
            before = self.segments
            self.segments = self._listed()
            before.close()
        self.quarantine = self._quarantine()

    def close(self) -> None:
        """Close the files of the log."""
        self.segments.close()

    def _log_names(self) -> list[str]:
        return [name for name in self.disk.names(_LOG) if name.isdigit()]

    def _quarantine(self) -> Quarantine:
        return open_quarantine(self.disk, self.segments, failpoints=Failpoints())

    def _listed(self) -> Segments:
        for _ in range(_TRIES):
            retained = load_retained(self.disk)
            names = self._log_names()
            try:
                segments = Segments(
                    self.disk,
                    _LOG,
                    segment_bytes=self.identity.segment_bytes,
                    failpoints=Failpoints(),
                    start=retained.log_start,
                )
            except FileNotFoundError:
                continue
            check_segments(segments, self.identity.store_id)
            self._names, self.retained = names, retained
            return segments
        raise StoreDamaged("the front of the log moves faster than it can be listed")


def _identity(disk: ReadOnlyDisk, path: Path) -> Identity:
    identity = load_identity(disk)
    if identity is None:
        raise InvalidArgument(f"{path} holds no store")
    return identity
