"""Dead letters nobody wants any more. Knows rows; the log keeps what it has."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from apps.audit.services import recorded
from apps.core.phrases import sentence
from apps.deadletters.models import DeadLetter, State
from apps.engine.errors import InvalidArgument
from apps.groups.models.fields import REASON_CHARACTERS_MAX

_GROUPS_NAMED_MAX = 20


def discard(
    *,
    letters: QuerySet[DeadLetter],
    reason: str,
    by: str,
    criteria: Mapping[str, Any] | None = None,  # Values of JSON.
) -> int:
    """Mark those that wait among `letters` as discarded, and return how many that were.

    Others are left alone. `criteria` is how they were chosen. Raises InvalidArgument without a
    reason.
    """
    if not 1 <= len(reason.strip()) <= len(reason) <= REASON_CHARACTERS_MAX:
        raise InvalidArgument(
            sentence(
                "a reason has 1 to %(reason_characters_max)s characters",
                reason_characters_max=REASON_CHARACTERS_MAX,
            )
        )
    with recorded(
        by=by, act="deadletters.discard", kind="dead letters", name="", reason=reason
    ) as entry:
        waiting = letters.filter(state=State.WAITING).order_by()
        groups = list(waiting.values_list("group", flat=True).distinct()[:_GROUPS_NAMED_MAX])
        # One that a job claims at this moment is passed over: two never wait for each other.
        free = waiting.select_for_update(skip_locked=True)
        count = DeadLetter.objects.filter(pk__in=free.values("pk")).update(
            state=State.DISCARDED,
            discarded_at=timezone.now(),
            discarded_by=by,
            discard_reason=reason,
        )
        entry.name = groups[0] if len(groups) == 1 else ""
        entry.before = {"state": State.WAITING.value, "groups": sorted(groups)}
        entry.after = {
            "state": State.DISCARDED.value,
            "count": count,
            "chosen_by": dict(criteria or {}),
        }
        if not count:
            entry.forget()
    return count
