"""The way of dead letters into rows: read on the engine's loop, written in a thread.

How far the rows are is asked of the rows themselves, so that nothing is missed and nothing twice,
whatever was restarted or restored. A look costs little where no message has died.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from django.db.models import Max, QuerySet

from apps.deadletters.models import DeadLetter, State
from apps.deadletters.records import group_of, records_of, row_of, topic_of
from apps.engine.api import EngineAPI, EngineControl
from apps.engine.clock import Clock
from apps.engine.codec.layout import DEAD_LETTER_PREFIX
from apps.engine.types import MessageBlock, PullRequest, QueueRange

# Rows are asked at times even where nothing has died: the database may have been restored.
COMPARE_EVERY_MS = 60_000
_MESSAGES_PER_READ = 500
_BYTES_PER_READ = 4 * 1024 * 1024

_log = logging.getLogger("mqweb.deadletters")

InDatabase = Callable[[Callable[[], object]], Awaitable[None]]
"""Carries out database work in a thread; nothing is carried out while the database is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the engine holds of dead letters at one moment, by group."""

    store_id: str
    ranges: Mapping[str, QueueRange]


class DeadLetterProjector:
    """Gives every dead letter of the log a row, and follows the log where it loses some."""

    def __init__(self, clock: Clock) -> None:
        """Know nothing: the first look asks the rows."""
        self._clock = clock
        self._projected: Look | None = None
        self._compare_again_ms = clock.monotonic_ms()

    def look(self, engine: EngineControl) -> Look | None:
        """Ask the engine what there is; None where the rows are known to be level with it."""
        found = Look(
            store_id=engine.status().store_id,
            ranges={
                group_of(topic): ranges[0]
                for topic, ranges in engine.own_ranges(DEAD_LETTER_PREFIX).items()
                if ranges
            },
        )
        is_level = found == self._projected
        if is_level and self._clock.monotonic_ms() < self._compare_again_ms:
            return None
        return found

    async def project(self, look: Look, engine: EngineAPI, in_database: InDatabase) -> None:
        """Write what rows lack of a look; where the database goes away, the next look does it."""
        starts: dict[str, int] = {}
        await in_database(partial(_begin, look, starts))
        if len(starts) != len(look.ranges):
            return
        for group, start in starts.items():
            if not await self._project_group(look, group, start, engine, in_database):
                return
        self._projected = look
        self._compare_again_ms = self._clock.monotonic_ms() + COMPARE_EVERY_MS

    async def _project_group(
        self, look: Look, group: str, start: int, engine: EngineAPI, in_database: InDatabase
    ) -> bool:
        """Write the letters from `start` to the end of the look; say whether that was done."""
        while start < look.ranges[group].max_offset:
            request = PullRequest(
                topic=topic_of(group),
                queue=0,
                queue_offset=start,
                messages_max=_MESSAGES_PER_READ,
                bytes_max=_BYTES_PER_READ,
            )
            result = await engine.pull(request)
            written: list[int] = []
            if len(result.block):
                write = partial(
                    _write, result.block, store_id=look.store_id, group=group, written=written
                )
                await in_database(write)
                if not written:
                    return False
            if result.next_offset <= start:
                break
            start = result.next_offset
        return True


def _begin(look: Look, starts: dict[str, int]) -> None:
    """Settle which letters are gone, and find where each group's rows end."""
    rows = DeadLetter.objects.filter(state=State.WAITING)
    rows.exclude(store_id=look.store_id).update(state=State.GONE)
    of_store = DeadLetter.objects.filter(store_id=look.store_id)
    unknown = of_store.exclude(group__in=look.ranges).order_by()
    for group in unknown.values_list("group", flat=True).distinct():
        # A group whose letters were deleted by age is known; this one never had any.
        _forget_unwritten(of_store.filter(group=group), group)
    for group, held in look.ranges.items():
        of_group = of_store.filter(group=group)
        of_group.filter(state=State.WAITING, queue_offset__lt=held.min_offset).update(
            state=State.GONE
        )
        # Its store was away, and is there again.
        of_group.filter(state=State.GONE, queue_offset__gte=held.min_offset).update(
            state=State.WAITING
        )
        _forget_unwritten(of_group.filter(queue_offset__gte=held.max_offset), group)
        last = of_group.aggregate(last=Max("queue_offset"))["last"]
        starts[group] = max(held.min_offset, -1 if last is None else last + 1)


def _forget_unwritten(rows: QuerySet[DeadLetter], group: str) -> None:
    """Delete rows of letters that the log has lost: others will have their places, and need rows.

    Only a log that was put back behind the database has lost any. What they died of is to come.
    """
    count = rows.delete()[1].get(DeadLetter._meta.label, 0)
    if count:
        _log.warning("dead_letters_ahead_of_log", extra={"group": group, "count": count})


def _write(block: MessageBlock, *, store_id: str, group: str, written: list[int]) -> None:
    rows = [row_of(record, store_id=store_id, group=group) for record in records_of(block)]
    # Another process that projects the same log, for a moment, is passed over.
    DeadLetter.objects.bulk_create(rows, ignore_conflicts=True)
    written.append(len(rows))
