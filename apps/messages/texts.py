"""What is said of events and gaps, in words. Knows no page; what anybody wrote is not put in."""

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.messages.life import Event, Gap, Kind

_GAPS = {
    Gap.NOT_FOUND: gettext_lazy(
        "The log does not hold the message: it is gone with its age, waits for its time or its "
        "transaction, or was never stored here."
    ),
    Gap.NO_TRACES: gettext_lazy(
        "No consumer told of its work on it. Consumers do where they are started with trace=True "
        "or MQWEB_TRACE=1, and what they told is kept as long as other messages."
    ),
    Gap.TRACES_INCOMPLETE: gettext_lazy(
        "Consumers told more of it than is looked at here, or not all of it could be looked at."
    ),
    Gap.COPIES_INCOMPLETE: gettext_lazy(
        "Not every topic was looked at to the end: retries or dead letters may be missing."
    ),
    Gap.SEVERAL: gettext_lazy(
        "Several messages have this id, or it was sent more than once; the first one is followed."
    ),
    Gap.NO_ID: gettext_lazy(
        "Its producer gave it no id of its own, so its retries and dead letters cannot be found."
    ),
    Gap.LOCKS_INCOMPLETE: gettext_lazy("The lock of its queue changed more often than is shown."),
    Gap.HALF_TIME: gettext_lazy(
        "It was sent in a transaction: when its half message was stored is not kept."
    ),
    Gap.WAITING_INCOMPLETE: gettext_lazy(
        "More messages wait for their time or their transaction than were looked at: it may be "
        "among them."
    ),
    Gap.NOT_SHOWN: gettext_lazy(
        "What happened to it in topics and groups that you may not look into is not shown."
    ),
}

_KINDS = {
    Kind.MADE: gettext_lazy("made by its producer"),
    Kind.HALF: gettext_lazy("made as a half message of a transaction"),
    Kind.STORED: gettext_lazy("stored"),
    Kind.DECIDED: gettext_lazy("somebody decided about its transaction"),
    Kind.COMMITTED: gettext_lazy("committed: stored where consumers see it"),
    Kind.UNDECIDED: gettext_lazy("waits for the decision of its transaction"),
    Kind.GIVEN_UP: gettext_lazy("given up: nobody decided its transaction"),
    Kind.WAITING: gettext_lazy("waited for its time"),
    Kind.RECALLED: gettext_lazy("cancelled before its time"),
    Kind.LOCK_WAIT: gettext_lazy("waited for the lock of its queue"),
    Kind.LOCK: gettext_lazy("lock of its queue"),
    Kind.WORKED: gettext_lazy("worked on"),
    Kind.FAILED: gettext_lazy("failed"),
    Kind.RETRIED: gettext_lazy("came again"),
    Kind.DEAD: gettext_lazy("became a dead letter"),
    Kind.RESENT: gettext_lazy("sent again"),
    Kind.DISCARDED: gettext_lazy("discarded by an operator"),
    Kind.SETTLED: gettext_lazy("settled by the group; when is not known"),
    Kind.IN_FLIGHT: gettext_lazy("given out, and not known to be settled"),
    Kind.NOT_YET: gettext_lazy("not given to the group yet"),
}


def gap_text(gap: Gap) -> str:
    """Return a sentence about what is not known."""
    return str(_GAPS[gap])


def kind_text(event: Event) -> str:
    """Return in words what happened."""
    if event.kind is Kind.WAITING and event.result == "now":
        return _("waits for its time")
    return str(_KINDS[event.kind])
