"""Admin of the delay levels, and of what waits in the broker's files.

The task that delivers levels writes their rows; messages are listed from the engine, and acts on
them go through the same services as the API's.
"""

# Django names the arguments of these methods, whether we need them or not.

from urllib.parse import urlencode

from django.contrib import admin
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.core.adminacts import Call
from apps.core.amounts import size
from apps.core.enginerows import EngineRowsAdmin, Held, HeldAct, HeldPage
from apps.core.moments import moment
from apps.core.queries import asked_number
from apps.delays import selectors, services
from apps.delays.handles import named_by
from apps.delays.models import DelayLevel
from apps.engine.delaytypes import DelayedMessage, Recall
from apps.engine.limits import DELAY_LEVELS_MAX

_MESSAGES_SHOWN = 100


@admin.register(DelayLevel)
class DelayLevelAdmin(EngineRowsAdmin):
    """How far each level is, at most a few seconds old while the clockwork runs."""

    list_display = [
        "level", "delay_ms", "waiting", "delivered", "max_offset", "head_due_at", "late_ms",
        "sampled_at",
    ]  # fmt: skip
    search_fields = ["=level"]
    search_help_text = gettext_lazy("The number of a level.")

    @admin.display(description=gettext_lazy("messages that wait"))
    def waiting(self, level: DelayLevel) -> int:
        """Return how many messages wait in the level."""
        return level.pending

    held_title = gettext_lazy("Messages that wait")
    held_columns = (
        gettext_lazy("due"), gettext_lazy("topic"), gettext_lazy("queue"),
        gettext_lazy("message id"), gettext_lazy("level"), gettext_lazy("size"),
    )  # fmt: skip
    held_empty = gettext_lazy("No message with a delay of its own waits.")
    held_acts = {
        "cancel": HeldAct(
            description=gettext_lazy("Cancel for good"), call=Call("POST", "delays/cancel")
        ),
        "deliver": HeldAct(
            description=gettext_lazy("Deliver now"), call=Call("POST", "delays/deliver-now")
        ),
    }
    held_permission = "delays.change_delaylevel"

    def held(self, query: QueryDict) -> HeldPage:
        """Return what waits with a delay of its own, or in the level of `?level=`."""
        level = asked_number(query, "level", lowest=1, highest=DELAY_LEVELS_MAX)
        page = selectors.page(level=level, cursor=query.get("cursor"), messages_max=_MESSAGES_SHOWN)
        asked = {} if level is None else {"level": level}
        following = {} if page.cursor is None else {**asked, "cursor": page.cursor}
        return HeldPage(
            rows=[_held(message) for message in page.messages], next_query=urlencode(following)
        )

    def topic_of(self, key: str) -> str | None:
        """Return the topic that a handle names."""
        named = named_by(key)
        return None if named is None else named.topic

    def carry_out(self, act: str, key: str, *, by: str) -> str:
        """Cancel or deliver one message, and say what became of it."""
        serve = services.cancel if act == "cancel" else services.deliver_now
        outcome = serve(handle=key, by=by)
        return {
            Recall.CANCELLED: _("The message is cancelled: nobody gets it."),
            Recall.DELIVERED: _("The message is delivered, now or before."),
            Recall.UNKNOWN: _("The broker does not know the message any more."),
        }[outcome]


def _held(message: DelayedMessage) -> Held:
    # What waits in a level can be neither cancelled nor delivered: it has no handle.
    return Held(
        key=message.handle or "",
        topic=message.topic,
        cells=(
            moment(message.due_ms), message.topic, message.queue, message.message_id,
            message.level, size(message.size_bytes),
        ),
        name=f"{message.topic} {message.message_id}",
    )  # fmt: skip
