"""Refusals of locks into rows, one for each minute and client. Knows rows and values, no engine."""

from collections.abc import Sequence
from datetime import timedelta

from apps.core.moments import moment
from apps.engine.grouptypes import LockRefused
from apps.groups.models import LockRefusal
from apps.groups.projection.levelling import level

KEEP = timedelta(days=7)
"""As far back as the timeline of a lock goes; who is refused for good is a row a minute."""

_KEYS = ("store_id", "epoch", "at", "group", "topic", "queue", "owner", "client_id")


class RefusalsSeen:
    """Which counts rows have, so that only what has grown is written."""

    def __init__(self) -> None:
        """Know of no row."""
        self._written: dict[tuple[object, ...], int] = {}
        self.since_ms = 0

    def news(self, found: Sequence[LockRefused]) -> list[LockRefused]:
        """Return the counts that rows do not have."""
        return [one for one in found if self._written.get(_key(one)) != one.count]

    def remember(self, written: Sequence[LockRefused]) -> None:
        """Take counts as written. Of minutes before the newest nothing more is asked."""
        if not written:
            return
        newest = max(self.since_ms, *(one.minute_ms for one in written))
        self._written |= {_key(one): one.count for one in written}
        if newest > self.since_ms:
            self.since_ms = newest
            self._written = {key: count for key, count in self._written.items() if key[0] == newest}


def write_refusals(found: Sequence[LockRefused], *, store_id: str, epoch: int) -> int:
    """Write the counts, over what their rows had; return how many rows that were."""
    if not found:
        return 0
    wanted = {
        tuple(getattr(row, name) for name in _KEYS): row
        for row in (
            LockRefusal(
                store_id=store_id,
                epoch=epoch,
                at=moment(one.minute_ms),
                group=one.group,
                topic=one.topic,
                queue=one.queue,
                owner=one.owner,
                client_id=one.client_id,
                count=one.count,
                last_at=moment(one.last_ms),
            )
            for one in found
        )
    }
    held = LockRefusal.objects.filter(
        store_id=store_id, epoch=epoch, at__in={row.at for row in wanted.values()}
    )
    return level(held, wanted, keys=_KEYS, compared=("count",), written=("last_at",)).written


def _key(one: LockRefused) -> tuple[object, ...]:
    return (one.minute_ms, one.group, one.topic, one.queue, one.owner, one.client_id)
