"""Removal of rows nobody needs: letters the log has lost, jobs that ended long ago."""

from datetime import timedelta

from django.db.models import Exists, OuterRef, Q

from apps.bridge import engine as bridge
from apps.clockwork.deleting import delete_some
from apps.clockwork.steps import Step
from apps.core.moments import moment
from apps.deadletters.models import DeadLetter, ResendJob, State
from apps.deadletters.models.jobs import ENDED
from apps.deadletters.records import group_of
from apps.engine.api import EngineControl
from apps.engine.codec.layout import DEAD_LETTER_PREFIX

KEEP = timedelta(days=30)
ROWS_PER_STEP = 5_000


def prune(*, now_ms: int, rows_max: int = ROWS_PER_STEP) -> Step:
    """Delete at most `rows_max` rows that are 30 days old; say whether more are left.

    A letter that the log holds stays, whatever became of it: its row would only come again, as one
    that waits. A job stays as long as it has letters. Raises Busy while the engine cannot be asked.
    """
    before = moment(now_ms) - KEEP
    store_id, begins = bridge.call(_begins)
    is_lost = ~Q(store_id=store_id)
    for group, begin in begins.items():
        is_lost |= Q(store_id=store_id, group=group, queue_offset__lt=begin)
    lost = DeadLetter.objects.filter(is_lost, dead_at__lt=before).exclude(state=State.RESENDING)
    deleted = delete_some(lost.order_by("pk"), rows_max=rows_max)
    ended = ResendJob.objects.filter(state__in=ENDED, ended_at__lt=before)
    bare = ended.exclude(Exists(DeadLetter.objects.filter(job=OuterRef("pk"))))
    deleted += delete_some(bare.order_by("pk"), rows_max=rows_max - deleted)
    return Step(done=deleted, more=deleted >= rows_max)


def _begins(engine: EngineControl) -> tuple[str, dict[str, int]]:
    """Return the store's id, and where each group's dead letters begin, but for the first."""
    begins = {
        group_of(topic): ranges[0].min_offset
        for topic, ranges in engine.own_ranges(DEAD_LETTER_PREFIX).items()
        if ranges and ranges[0].min_offset
    }
    return engine.status().store_id, begins
