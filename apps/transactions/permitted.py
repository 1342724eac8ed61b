"""Which transactions whoever asks may decide or check: those of topics they have the right for.

Knows who asks; changes nothing.
"""

from django.http import HttpRequest

from apps.access import asking
from apps.access.policy import Action, topic, topic_or_cluster
from apps.core.phrases import sentence
from apps.engine.errors import UnknownTransaction
from apps.engine.transactiontypes import GivenUpMessage, PendingTransaction
from apps.transactions import selectors


def to_decide(request: HttpRequest, half_offset: int) -> PendingTransaction | None:
    """Return the undecided transaction of a half offset, where whoever asks may decide it.

    None where there is none they may know of. Raises PermissionDenied for one they may only look
    at, and Busy.
    """
    found = selectors.one(half_offset)
    if found is None or not asking.permitted(request, Action.DECIDE, topic(found.topic)):
        return None
    return found


def check_by_id(request: HttpRequest, transaction_id: str) -> None:
    """Raise PermissionDenied unless whoever asks may have the producers of a transaction asked.

    Raises UnknownTransaction for one they may not know of, with the words for one that is decided,
    and Busy.
    """
    if not asking.is_on():
        return
    found = selectors.by_id(transaction_id)
    if found is None or not asking.permitted(request, Action.DECIDE, topic(found.topic)):
        raise UnknownTransaction(
            sentence("the transaction is not pending; it may have been decided")
        )


def given_up(request: HttpRequest, offset: int, *, action: Action) -> GivenUpMessage | None:
    """Return the given-up message at an offset, where whoever asks may do something with it.

    None where there is none they may know of. Raises PermissionDenied, and Busy.
    """
    found = selectors.given_up_one(offset)
    if found is None or not asking.permitted(request, action, topic_or_cluster(found.topic)):
        return None
    return found
