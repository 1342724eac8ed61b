"""Dead letters nobody wants any more. Knows rows; the log keeps what it has."""

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from apps.deadletters.models import DeadLetter, State
from apps.engine.errors import InvalidArgument
from apps.groups.models.fields import REASON_CHARACTERS_MAX


def discard(*, letters: QuerySet[DeadLetter], reason: str, by: str) -> int:
    """Mark those that wait among `letters` as discarded, and return how many that were.

    Others are left alone. Raises InvalidArgument without a reason.
    """
    if not 1 <= len(reason.strip()) <= len(reason) <= REASON_CHARACTERS_MAX:
        raise InvalidArgument(f"a reason has 1 to {REASON_CHARACTERS_MAX} characters")
    with transaction.atomic():
        # One that a job claims at this moment is passed over: two never wait for each other.
        free = letters.filter(state=State.WAITING).order_by().select_for_update(skip_locked=True)
        return DeadLetter.objects.filter(pk__in=free.values("pk")).update(
            state=State.DISCARDED,
            discarded_at=timezone.now(),
            discarded_by=by,
            discard_reason=reason,
        )
