"""Take samples, roll them up, delete what is old: bounded steps, safe to run twice at once."""

from collections.abc import Sequence

from django.db import transaction

from apps.bridge import engine as bridge
from apps.clockwork.deleting import delete_some
from apps.clockwork.steps import Step
from apps.core.moments import moment, ms_of
from apps.engine.api import EngineControl
from apps.engine.clock import Clock
from apps.engine.codec.layout import DEAD_LETTER_PREFIX
from apps.engine.litetypes import LiteBacklog
from apps.metrics import looks, readings, rollups, summaries
from apps.metrics.columns import group_rows, store_columns, topic_rows
from apps.metrics.looks import Look, LookOfGroup
from apps.metrics.models import GroupSample, Sample, StoreSample, TopicSample
from apps.metrics.readings import PAUSE_MS_MAX, GroupReading, Reading, TopicReading
from apps.metrics.resolutions import FINE, HOUR, MINUTE, RESOLUTIONS, Resolution

# One statement carries up to fifty values a row; PostgreSQL takes 65,535 in one.
_ROWS_PER_STATEMENT = 1_200

# With a thousand topics and a thousand groups a minute takes 0.2 s and an hour less than a second;
# a step must end within half of the lease of its task.
MINUTES_PER_STEP = 15
HOURS_PER_STEP = 1

DELETED_PER_STEP = 10_000
# Samples wait this much longer than they are kept for a roll-up that does not come.
WAIT_MS_MAX = 24 * 3600 * 1000

_MODELS: tuple[type[Sample], ...] = (TopicSample, GroupSample, StoreSample)


def sample(*, clock: Clock) -> Step:
    """Write what the engine says now as the rows of this slot, with rates since the slot before.

    The summaries of topics and groups become those of this moment. The first to write a slot has
    it: another run of the same slot writes nothing. Raises what asking the engine raises; the slot
    then stays empty.
    """
    now = _read(clock)
    slot_ms = FINE.slot_ms(now.taken_ms)
    before = _reading_before(slot_ms)
    slot = {"resolution_s": FINE.seconds, "at": moment(slot_ms), "samples": 1}
    topics = [TopicSample(**slot, **columns) for columns in topic_rows(now, before)]
    groups = [GroupSample(**slot, **columns) for columns in group_rows(now, before)]
    with transaction.atomic():
        # Of two runs at once the second waits here until the first has committed.
        _, is_ours = StoreSample.objects.get_or_create(
            resolution_s=FINE.seconds,
            at=moment(slot_ms),
            defaults={"samples": 1, **store_columns(now, before)},
        )
        if not is_ours:
            return Step()
        TopicSample.objects.bulk_create(topics, batch_size=_ROWS_PER_STATEMENT)
        GroupSample.objects.bulk_create(groups, batch_size=_ROWS_PER_STATEMENT)
        summaries.keep(now, before)
    return Step(done=1 + len(topics) + len(groups))


def _read(clock: Clock) -> Reading:
    status, totals, progress, lites = bridge.call(
        lambda engine: (
            engine.status(),
            engine.topic_totals(),
            engine.group_progress(),
            engine.lite_backlog(),
        )
    )
    taken_ms = clock.wall_ms()
    slot_ms = FINE.slot_ms(taken_ms)
    look: Look | None = None
    if looks.is_due(slot_ms=slot_ms, slot_length_ms=FINE.ms, rows=len(progress)):
        look = bridge.call(lambda engine: _look(engine, lites, taken_ms))
    return readings.reading_of(
        taken_ms=taken_ms, status=status, totals=totals, progress=progress, lites=lites, look=look
    )


def _look(engine: EngineControl, lites: Sequence[LiteBacklog], now_ms: int) -> Look:
    return looks.look_of(
        backlog=engine.backlog(),
        lites=lites,
        members=engine.members(),
        clients=engine.clients(),
        dead_letters={
            topic.removeprefix(DEAD_LETTER_PREFIX): ranges
            for topic, ranges in engine.own_ranges(DEAD_LETTER_PREFIX).items()
        },
        now_ms=now_ms,
    )


def roll_up(*, now_ms: int) -> Step:
    """Roll up the oldest complete slots that are not, or that got another sample since.

    Minutes go first: hours are made of them.
    """
    minutes = rollups.pending(FINE, MINUTE, now_ms=now_ms)
    for slot_ms in minutes[:MINUTES_PER_STEP]:
        rollups.roll_up(FINE, MINUTE, slot_ms)
    if len(minutes) > MINUTES_PER_STEP:
        return Step(done=MINUTES_PER_STEP, more=True)
    hours = rollups.pending(MINUTE, HOUR, now_ms=now_ms)
    for slot_ms in hours[:HOURS_PER_STEP]:
        rollups.roll_up(MINUTE, HOUR, slot_ms)
    hour_count = min(len(hours), HOURS_PER_STEP)
    return Step(done=len(minutes) + hour_count, more=len(hours) > hour_count)


def prune(*, now_ms: int) -> Step:
    """Delete rows older than their resolution is kept, at most DELETED_PER_STEP of them.

    Rows that are not rolled up yet wait for it, a day at most.
    """
    deleted = 0
    for resolution in RESOLUTIONS:
        old_ms = _old_before_ms(resolution, now_ms)
        for model in _MODELS:
            old = model._default_manager.filter(
                resolution_s=resolution.seconds, at__lt=moment(old_ms)
            )
            deleted += delete_some(old.order_by("at"), rows_max=DELETED_PER_STEP - deleted)
            if deleted == DELETED_PER_STEP:
                return Step(done=deleted, more=True)
    return Step(done=deleted)


def _reading_before(slot_ms: int) -> Reading | None:
    """Return what rates of a slot are counted from: the newest earlier slot that is not too old."""
    before = (
        StoreSample.objects.filter(
            resolution_s=FINE.seconds,
            at__lt=moment(slot_ms),
            at__gte=moment(slot_ms - PAUSE_MS_MAX),
        )
        .order_by("-at")
        .values_list("at", "taken_at")
        .first()
    )
    if before is None:
        return None
    at, taken_at = before
    slot = {"resolution_s": FINE.seconds, "at": at}
    return Reading(
        taken_ms=ms_of(taken_at),
        topics={
            topic: TopicReading(sent=sent)
            for topic, sent in TopicSample.objects.filter(**slot)
            .order_by()
            .values_list("topic", "sent")
            if sent is not None
        },
        groups={
            (group, topic): GroupReading(
                queue_count=queue_count,
                committed=committed,
                lag=lag,
                look=None if refusals is None else _refused(refusals),
            )
            for group, topic, queue_count, committed, lag, refusals in (
                GroupSample.objects.filter(**slot)
                .order_by()
                .values_list("group", "topic", "queue_count", "committed", "lag", "refusals")
            )
            if committed is not None
        },
    )


def _refused(refusals: int) -> LookOfGroup:
    return LookOfGroup(oldest_age_ms=None, blocked=0, members=0, refusals=refusals)


def _old_before_ms(resolution: Resolution, now_ms: int) -> int:
    old_ms = resolution.kept_from_ms(now_ms)
    if resolution is RESOLUTIONS[-1]:
        return old_ms
    coarser = RESOLUTIONS[RESOLUTIONS.index(resolution) + 1]
    waiting = rollups.pending(resolution, coarser, now_ms=now_ms)
    return max(old_ms - WAIT_MS_MAX, min([old_ms, *waiting]))
