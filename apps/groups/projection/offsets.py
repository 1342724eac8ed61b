"""Progress into rows. Knows rows and values, no clock and no engine."""

import logging
from collections.abc import Mapping, Sequence

from apps.core.moments import moment
from apps.engine.types import GroupProgress
from apps.groups.models import ConsumerOffset

Key = tuple[str, str, int]
Offsets = tuple[int, int]

# One statement carries six values a row; PostgreSQL takes 65,535 in one.
_ROWS_PER_STATEMENT = 5_000

_log = logging.getLogger("mqweb.groups")


class OffsetProjector:
    """Writes progress that changed since the last write, in one upsert."""

    def __init__(self) -> None:
        """Know nothing yet: the first projection writes every row."""
        self._written: dict[Key, Offsets] = {}

    def project(self, progress: Sequence[GroupProgress], *, now_ms: int) -> int:
        """Write what changed and return how many rows that were.

        When the database refuses, nothing is remembered and the next call writes it again.
        """
        changed = {
            (row.group, row.topic, row.queue): (row.committed, row.delivered)
            for row in progress
            if self._written.get((row.group, row.topic, row.queue))
            != (row.committed, row.delivered)
        }
        if not changed:
            return 0
        if not self._written:
            _report_ahead(changed)
        updated_at = moment(now_ms)
        ConsumerOffset.objects.bulk_create(
            [
                ConsumerOffset(
                    group=group,
                    topic=topic,
                    queue=queue,
                    committed=committed,
                    delivered=delivered,
                    updated_at=updated_at,
                )
                for (group, topic, queue), (committed, delivered) in changed.items()
            ],
            batch_size=_ROWS_PER_STATEMENT,
            update_conflicts=True,
            unique_fields=["group", "topic", "queue"],
            update_fields=["committed", "delivered", "updated_at"],
        )
        self._written.update(changed)
        return len(changed)


def _report_ahead(told: Mapping[Key, Offsets]) -> None:
    """Say which rows of the time before go back: only a log that was put back has lost progress.

    A reset that was not projected before a kill shows here as well.
    """
    rows = ConsumerOffset.objects.values_list("group", "topic", "queue", "committed")
    ahead = [
        (group, topic, queue)
        for group, topic, queue, committed in rows.iterator()
        if committed > told.get((group, topic, queue), (committed, 0))[0]
    ]
    if ahead:
        group, topic, queue = min(ahead)
        extra = {"count": len(ahead), "group": group, "topic": topic, "queue": queue}
        _log.warning("progress_ahead_of_log", extra=extra)
