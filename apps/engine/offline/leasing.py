"""Leases of readers that are elsewhere: taken, renewed while they are used, given back.

Knows names of leases and times; not what is read.
"""

from pathlib import Path

from apps.engine.clock import Clock
from apps.engine.errors import EngineError
from apps.engine.files import atomic
from apps.engine.files.posix import PosixDisk
from apps.engine.log.segmentleases import DIRECTORY, SegmentLease, SegmentLeases

# Who died leaves a file behind; it holds nothing, and goes when it is over for so long.
_FORGOTTEN_MS = 3_600_000


class ReaderLease:
    """A lease of one reader on the log from some offset on."""

    def __init__(
        self, path: Path, owner: str, *, lease_ms: int, clock: Clock, yields: bool = False
    ) -> None:
        """Bind to a store's directory; nothing is taken yet.

        `owner` is a name nobody else uses, of letters, digits, `_` and `-`. One that `yields` gives
        way where the disk is too full.
        """
        self._disk = PosixDisk(path)
        self._leases = SegmentLeases(self._disk, clock)
        self._clock = clock
        self._owner = owner
        self._lease_ms = lease_ms
        self._yields = yields
        self._held: SegmentLease | None = None

    @property
    def until_ms(self) -> int:
        """Return until when the lease is taken, wall time; 0 where it is not."""
        return 0 if self._held is None else self._held.until_ms

    def take(self, log_offset: int) -> int:
        """Take the lease, or renew it; return where what is leased begins.

        Raises InvalidArgument, or what a disk refuses: StoreFull, WriteFailed, OutOfMeans.
        """
        self._held = self._leases.take(
            self._owner, log_offset, lease_ms=self._lease_ms, yields=self._yields
        )
        return self._held.log_offset

    def move(self, log_offset: int) -> None:
        """Renew from further on, or where less than half of the time is left."""
        held = self._held
        is_due = held is None or held.until_ms - self._clock.wall_ms() < self._lease_ms // 2
        if is_due or (held is not None and log_offset > held.log_offset):
            self.take(log_offset)

    def keep(self) -> None:
        """Renew where less than half of the time is left. Does nothing before `take`."""
        if self._held is not None:
            self.move(self._held.log_offset)

    def release(self) -> None:
        """Give the lease back. A second call does nothing."""
        if self._held is not None:
            self._held = None
            self._leases.release(self._owner)

    def forget_abandoned(self, prefix: str) -> int:
        """Remove the files of leases by that prefix that are over for an hour; return how many."""
        gone = 0
        for name in self._disk.names(DIRECTORY):
            path = f"{DIRECTORY}/{name}"
            if not name.startswith(prefix) or not self._is_over(path):
                continue
            self._disk.remove(path)
            gone += 1
        return gone

    def _is_over(self, path: str) -> bool:
        try:
            content = atomic.load(self._disk, path)
            if content is None:
                return False
            return int(content["until_ms"]) + _FORGOTTEN_MS < self._clock.wall_ms()
        except (EngineError, KeyError, TypeError, ValueError):
            return False
