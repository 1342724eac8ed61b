"""Which silences hold, and what they cover. Reads rows."""

from collections.abc import Iterable

from django.db.models import Q

from apps.alerts.kinds import is_meant
from apps.alerts.models import Alert, Silence
from apps.core.moments import moment


def active_silences(*, now_ms: int) -> list[Silence]:
    """Return the silences that hold now."""
    now = moment(now_ms)
    return list(Silence.objects.filter(Q(ended_at=None), starts_at__lte=now, ends_at__gt=now))


def is_silenced(alert: Alert, silences: Iterable[Silence]) -> bool:
    """Say whether one of the silences covers an alert."""
    return any(
        silence.kind in ("", alert.kind) and is_meant(alert.subject, silence.scope, silence.subject)
        for silence in silences
    )
