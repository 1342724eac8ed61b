"""Removal of what is old: alerts that are over, silences, and what was told. Rows only."""

from datetime import timedelta

from apps.alerts.models import Alert, Notification, Silence
from apps.clockwork.deleting import delete_some
from apps.clockwork.steps import Step
from apps.core.moments import moment

KEEP_ALERTS = timedelta(days=90)
KEEP_SILENCES = timedelta(days=90)
KEEP_NOTIFICATIONS = timedelta(days=14)
ROWS_PER_STEP = 2_000


def prune(*, now_ms: int, rows_max: int = ROWS_PER_STEP) -> Step:
    """Delete at most `rows_max` rows that are old; say whether more are left.

    Alerts and silences are kept for 90 days after their end, notifications for 14.
    """
    now = moment(now_ms)
    deleted = 0
    for old in (
        Notification.objects.filter(ended_at__lt=now - KEEP_NOTIFICATIONS),
        Alert.objects.filter(resolved_at__lt=now - KEEP_ALERTS),
        Silence.objects.filter(ends_at__lt=now - KEEP_SILENCES),
    ):
        deleted += delete_some(old.order_by("pk"), rows_max=rows_max - deleted)
    return Step(done=deleted, more=deleted >= rows_max)
