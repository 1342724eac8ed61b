"""Leases on the log for readers outside of the owner: files, so that any process can take one.

Knows the files under `leases/` and the log's start; nobody's bytes. A reader writes its lease and
then looks where the log starts; retention writes the log's start and then looks for leases. So one
of the two always sees the other, and no lock is needed between processes.
"""

import re
from dataclasses import dataclass

from apps.engine.clock import Clock
from apps.engine.errors import EngineError, InvalidArgument
from apps.engine.files import atomic
from apps.engine.files.backend import Disk
from apps.engine.log.retained import load_retained

DIRECTORY = "leases"
# A reader that needs longer renews; one that died holds the disk no longer than this.
LEASE_MS_MAX = 24 * 3_600_000

_OWNER = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLease:
    """The log from `log_offset` on stays readable for `owner` until a wall time.

    One that yields holds the log against age and size, and gives way where the disk is so full that
    the oldest goes whatever its age.
    """

    owner: str
    log_offset: int
    until_ms: int
    yields: bool = False


class SegmentLeases:
    """The leases of one store. Takes no lock: any process may use it beside the owner."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        """Bind to a store's directory."""
        self._disk = disk
        self._clock = clock

    def take(
        self, owner: str, log_offset: int, *, lease_ms: int, yields: bool = False
    ) -> SegmentLease:
        """Take a lease, or renew it, perhaps from further on; it is on the disk when this returns.

        What is leased begins at `log_offset`, or where the log does now: look at the answer's.
        Raises InvalidArgument, StoreFull, WriteFailed or SyncFailed.
        """
        path = _path(owner)
        if log_offset < 0 or not 1 <= lease_ms <= LEASE_MS_MAX:
            raise InvalidArgument(
                f"a lease is of 1 to {LEASE_MS_MAX} ms, from an offset of the log"
            )
        until_ms = self._clock.wall_ms() + lease_ms
        content = {"owner": owner, "log_offset": log_offset, "until_ms": until_ms}
        atomic.replace(self._disk, path, {**content, "yields": True} if yields else content)
        log_start = load_retained(self._disk).log_start
        return SegmentLease(
            owner=owner,
            log_offset=max(log_offset, log_start),
            until_ms=until_ms,
            yields=yields,
        )

    def release(self, owner: str) -> None:
        """Give a lease back; nothing happens where there is none. Raises InvalidArgument."""
        self._disk.remove(_path(owner))

    def in_force(self) -> list[SegmentLease]:
        """Return the leases that are not over, by owner.

        One that cannot be read is of the whole log, for ever: a person must look.
        """
        now_ms = self._clock.wall_ms()
        found = []
        for owner in self._disk.names(DIRECTORY):
            if _OWNER.fullmatch(owner) is None:
                continue
            lease = self._load(owner)
            if lease is not None and lease.until_ms > now_ms:
                found.append(lease)
        return found

    def _load(self, owner: str) -> SegmentLease | None:
        try:
            content = atomic.load(self._disk, _path(owner))
            if content is None:
                return None
            return SegmentLease(
                owner=owner,
                log_offset=int(content["log_offset"]),
                until_ms=int(content["until_ms"]),
                yields=content.get("yields") is True,
            )
        except (EngineError, KeyError, TypeError, ValueError):
            return SegmentLease(owner=owner, log_offset=0, until_ms=1 << 62)


def _path(owner: str) -> str:
    if _OWNER.fullmatch(owner) is None:
        raise InvalidArgument(f"{owner!r} is no name of letters, digits, _ and -, up to 100")
    return f"{DIRECTORY}/{owner}"
