"""Admin of what people decided about transactions, and of those that nobody decided yet.

Undecided messages are in the broker's files alone; they are listed from the engine, and decided by
the same services as everywhere.
"""

# Django names the arguments of these methods, whether we need them or not.

from urllib.parse import urlencode

from django.contrib import admin
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.core.adminacts import Call
from apps.core.enginerows import EngineRowsAdmin, Held, HeldAct, HeldPage
from apps.core.moments import moment
from apps.core.queries import asked_number
from apps.engine.errors import UnknownTransaction
from apps.engine.transactiontypes import Outcome, PendingTransaction
from apps.transactions import selectors, services
from apps.transactions.models import TransactionDecision

_TRANSACTIONS_SHOWN = 100
_OFFSET_MAX = 2**62
_DECIDE = Call("POST", "transactions/<int:half_offset>/decide")


@admin.register(TransactionDecision)
class TransactionDecisionAdmin(EngineRowsAdmin):
    """Who asked for what, when, and what the engine said."""

    list_display = [
        "at", "by", "asked", "answer", "topic", "producer_group", "transaction_id", "reason",
    ]  # fmt: skip
    list_filter = ["asked", "answer", "at"]
    search_fields = ["transaction_id__exact", "message_id__exact", "by", "topic"]
    search_help_text = gettext_lazy("A transaction or message id, whole, or part of a name.")
    date_hierarchy = "at"

    held_title = gettext_lazy("Undecided transactions")
    held_columns = (
        gettext_lazy("begun"), gettext_lazy("topic"), gettext_lazy("producer group"),
        gettext_lazy("message id"), gettext_lazy("checks"), gettext_lazy("next check"),
        gettext_lazy("producers there"),
    )  # fmt: skip
    held_empty = gettext_lazy("No transaction waits for a decision.")
    held_acts = {
        "commit": HeldAct(
            description=gettext_lazy("Commit: consumers get the message"), call=_DECIDE
        ),
        "roll_back": HeldAct(
            description=gettext_lazy("Roll back: nobody ever gets it"), call=_DECIDE
        ),
        "check": HeldAct(
            description=gettext_lazy("Have its producer asked now"),
            call=Call("POST", "api/v1/transactions/<str:transaction_id>:check-now"),
        ),
    }
    held_permission = "transactions.add_transactiondecision"

    def held(self, query: QueryDict) -> HeldPage:
        """Return undecided transactions, the oldest first."""
        after = asked_number(query, "after", lowest=0, highest=_OFFSET_MAX)
        found = selectors.pending(
            after=-1 if after is None else after, transactions_max=_TRANSACTIONS_SHOWN + 1
        )
        shown = found[:_TRANSACTIONS_SHOWN]
        is_more = len(found) > len(shown)
        return HeldPage(
            rows=[_held(one) for one in shown],
            next_query=urlencode({"after": shown[-1].half_offset}) if is_more else "",
        )

    def topic_of(self, key: str) -> str | None:
        """Return the topic of an undecided transaction."""
        found = _pending(key)
        return None if found is None else found.topic

    def carry_out(self, act: str, key: str, *, by: str) -> str:
        """Decide about one transaction, or have its producer asked."""
        found = _pending(key)
        if found is None:
            raise UnknownTransaction(_("it is not pending any more"))
        if act == "check":
            services.check_now(transaction_id=found.transaction_id, by=by)
            return _("The producers of %(group)s are asked.") % {"group": found.producer_group}
        outcome = Outcome.COMMITTED if act == "commit" else Outcome.ROLLED_BACK
        ended = services.decide(transaction=found, outcome=outcome, by=by)
        if outcome is Outcome.ROLLED_BACK:
            return _("Rolled back: nobody will ever see the message.")
        return _("Committed: the message is in %(topic)s, queue %(queue)s.") % {
            "topic": ended.topic,
            "queue": ended.queue,
        }


def _pending(key: str) -> PendingTransaction | None:
    is_offset = key.isascii() and key.isdigit() and len(key) <= len(str(_OFFSET_MAX))
    return selectors.one(int(key)) if is_offset else None


def _held(one: PendingTransaction) -> Held:
    next_at = None if one.next_check_ms is None else moment(one.next_check_ms)
    return Held(
        key=str(one.half_offset),
        topic=one.topic,
        cells=(
            moment(one.begun_ms), one.topic, one.producer_group, one.message_id,
            one.checks, next_at, one.producers,
        ),
        name=f"{one.topic} {one.message_id}",
    )  # fmt: skip
