"""Keeps the book of a process as new as the database's, and writes down when tokens were used.

For the process with the doors; what another process changed is seen at the next step.
"""

from collections.abc import Mapping

from apps.access import snapshot
from apps.access.models import ApiToken
from apps.core.moments import moment
from apps.engine.clock import Clock

# With the time a build takes, a change reaches every door within a second.
STEP_EVERY_S = 0.5
LOOK_EVERY_S = 0.25
# Rows that changed without their version, by a person with SQL, are not overlooked for ever.
_REBUILD_EVERY_MS = 30_000
_WRITE_USE_EVERY_MS = 60_000


class Keeper:
    """One process's."""

    def __init__(self, used: Mapping[int, int], *, clock: Clock) -> None:
        """Write down `used`: wall times by the number of the token."""
        self._used = used
        self._clock = clock
        self._built_ms: int | None = None
        self._written: dict[int, int] = {}

    def step(self) -> None:
        """Read what has changed, and write what is due. Raises what the database raises."""
        now_ms = self._clock.monotonic_ms()
        book = snapshot.current()
        is_old = self._built_ms is None or now_ms - self._built_ms >= _REBUILD_EVERY_MS
        if book is None or is_old or book.version != snapshot.stored_version():
            snapshot.publish()
            self._built_ms = now_ms
        self._write_use()

    def _write_use(self) -> None:
        for number, used_ms in list(self._used.items()):
            written_ms = self._written.get(number)
            if written_ms is None or used_ms - written_ms >= _WRITE_USE_EVERY_MS:
                ApiToken.objects.filter(pk=number).update(last_used_at=moment(used_ms))
                self._written[number] = used_ms
