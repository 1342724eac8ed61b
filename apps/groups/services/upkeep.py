"""What the clockwork does about groups: share out again, delete old history. Bounded steps."""

from django.db.models import Exists, OuterRef, QuerySet

from apps.bridge import engine as bridge
from apps.clockwork.deleting import delete_some
from apps.clockwork.steps import Step
from apps.core.moments import moment
from apps.engine.api import EngineControl
from apps.groups.models import ConsumerGroup, LockRefusal, LockTransition, QueueLock, Rebalance
from apps.groups.models.locks import State
from apps.groups.projection import refusals
from apps.groups.projection.history import KEEP

ROWS_PER_STEP = 5_000


def rebalance() -> Step:
    """Have the engine expire silent members and share out all queues; count what changed.

    The engine does so by itself, at once, whenever it has reason to: this catches what was missed.
    Raises Busy while the engine cannot be asked.
    """
    return Step(done=len(bridge.call(lambda engine: engine.rebalance(reason="beat"))))


def prune_history(*, now_ms: int, rows_max: int = ROWS_PER_STEP) -> Step:
    """Delete at most `rows_max` old rows: history, refusals, free locks, groups unheard of.

    Refusals are kept for seven days, the rest for 30.

    A group stays that somebody decided about, or that the engine knows; a free lock stays as long
    as it has history. Raises Busy while the engine cannot be asked.
    """
    before = moment(now_ms) - KEEP
    deleted = 0
    rows: QuerySet[Rebalance] | QuerySet[LockTransition]
    for rows in (
        Rebalance.objects.filter(at__lt=before),
        LockTransition.objects.filter(at__lt=before),
    ):
        deleted += delete_some(rows.order_by("pk"), rows_max=rows_max - deleted)
    old = LockRefusal.objects.filter(at__lt=moment(now_ms) - refusals.KEEP)
    deleted += delete_some(old.order_by("pk"), rows_max=rows_max - deleted)
    lines = LockTransition.objects.filter(
        group=OuterRef("group"), topic=OuterRef("topic"), queue=OuterRef("queue")
    )
    free = QueueLock.objects.filter(state=State.FREE, updated_at__lt=before).exclude(Exists(lines))
    deleted += delete_some(free.order_by("pk"), rows_max=rows_max - deleted)
    unheard = ConsumerGroup.objects.filter(decided_at=None, created_at__lt=before)
    if unheard.exists():
        known = bridge.call(_known_groups)
        deleted += delete_some(
            unheard.exclude(name__in=known).order_by("pk"), rows_max=rows_max - deleted
        )
    return Step(done=deleted, more=deleted >= rows_max)


def _known_groups(engine: EngineControl) -> set[str]:
    return {
        *(row.group for row in engine.group_progress()),
        *(client.group for client in engine.clients()),
        *(member.group for member in engine.members()),
    }
