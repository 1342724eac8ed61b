"""Admin of topics and queues. Changes go through the same service as the API's."""

# Django names the arguments of these methods, whether we need them or not.
# ruff: noqa: ARG002

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.access import asking
from apps.access.policy import Action
from apps.access.policy import topic as topic_of
from apps.audit.models import REASON_CHARACTERS_MAX
from apps.core.actors import actor_of
from apps.core.admin import DecidedAdmin, ReadOnlyAdmin
from apps.core.adminacts import Call, Chosen, confirmed
from apps.core.phrases import told
from apps.engine import limits
from apps.engine.errors import EngineError, Refused
from apps.engine.types import Cleanup, TopicType
from apps.topics import selectors, services
from apps.topics.models import (
    LITE_TTL_MINUTES_MAX,
    LITE_TTL_MINUTES_MIN,
    QUEUE_COUNT_DEFAULT,
    MessageQueue,
    Topic,
)
from apps.topics.models import Cleanup as CleanupChoice

if TYPE_CHECKING:
    # Generic for type checkers only: Django's own classes take no parameter.
    TopicModelForm = forms.ModelForm[Topic]
else:
    TopicModelForm = forms.ModelForm


class TopicForm(TopicModelForm):
    """A topic's values; refused here exactly where the service would refuse them."""

    class Meta:
        model = Topic
        fields = [
            "name", "type", "queue_count", "perm", "expires_ms", "retention_ms", "cleanup",
            "lite_ttl_minutes",
        ]  # fmt: skip

    queue_count = forms.IntegerField(
        label=gettext_lazy("Number of queues"),
        min_value=1,
        max_value=limits.QUEUE_COUNT_MAX,
        initial=QUEUE_COUNT_DEFAULT,
        help_text=gettext_lazy(
            "Fewer than there are drain: they take no more messages, and go once every group has "
            "read them."
        ),
    )
    cleanup = forms.ChoiceField(
        label=gettext_lazy("Cleanup"),
        choices=CleanupChoice,
        required=False,
        help_text=gettext_lazy(
            "Compact keeps the newest message of each key of each queue for ever, and takes none "
            "without a key. Fixed when the topic is made."
        ),
    )
    drain = forms.BooleanField(
        label=gettext_lazy("Drain before it grows"),
        required=False,
        help_text=gettext_lazy(
            "Let further queues take messages only once every group has read all there is."
        ),
    )

    def clean_name(self) -> str:
        """Return the name; refuse what the service would."""
        name: str = self.cleaned_data["name"]
        try:
            services.check_name(name)
        except Refused as refusal:
            raise ValidationError(str(refusal)) from refusal
        return name

    def clean_cleanup(self) -> str:
        """Return what was chosen; what any topic does where nothing was."""
        return self.cleaned_data["cleanup"] or Cleanup.DELETE.value

    def clean(self) -> dict[str, Any]:
        """Return the values; refuse an age in a compacted topic, as the service does."""
        cleaned: dict[str, Any] = super().clean() or {}
        cleanup = cleaned.get("cleanup", self.instance.cleanup)
        if cleanup == Cleanup.COMPACT and cleaned.get("retention_ms") is not None:
            self.add_error("retention_ms", _("A compacted topic keeps the newest of each key."))
        self._check_lite(cleaned, cleanup)
        return cleaned

    def _check_lite(self, cleaned: dict[str, Any], cleanup: str) -> None:
        """Refuse what does not go with lite topics, or without them, as the service does."""
        is_lite = cleaned.get("type") == TopicType.LITE
        if self.instance.pk is not None and "type" in self.changed_data:
            was_lite = self.initial.get("type") == TopicType.LITE
            if is_lite != was_lite:
                self.add_error("type", _("A topic is of type LITE from the first or never."))
        if is_lite and cleanup == Cleanup.COMPACT:
            self.add_error(None, _("A topic of type LITE cannot be compacted."))
        minutes = cleaned.get("lite_ttl_minutes")
        if minutes is None:
            return
        if not is_lite:
            self.add_error("lite_ttl_minutes", _("This goes with the type LITE."))
        elif not LITE_TTL_MINUTES_MIN <= minutes <= LITE_TTL_MINUTES_MAX:
            self.add_error(
                "lite_ttl_minutes",
                _("This must be from %(least)s to %(most)s.")
                % {"least": LITE_TTL_MINUTES_MIN, "most": LITE_TTL_MINUTES_MAX},
            )

    def get_initial_for_field(self, field: forms.Field, field_name: str) -> Any:
        """Return a field's value as it is now; of a topic that changes its queues, the target."""
        if field_name == "queue_count" and self.instance.pk is not None:
            return self.instance.target_queue_count
        return super().get_initial_for_field(field, field_name)


# The engine is asked about each.
_DELETED_MAX = 20


class DeletionForm(forms.Form):
    """Why a topic goes."""

    reason = forms.CharField(
        label=gettext_lazy("Reason, to be written down"), max_length=REASON_CHARACTERS_MAX
    )
    even_in_use = forms.BooleanField(
        label=gettext_lazy("Also while groups read it"), required=False
    )


def _what_goes(topic: Topic, _rows: QuerySet[Any]) -> Iterable[str]:
    """Yield what goes with a topic, and who reads it, as far as the engine can be asked."""
    try:
        use = selectors.use_of(topic.name)
    except EngineError as error:
        yield _("%(name)s: who reads it is not known: %(trouble)s") % {
            "name": topic.name,
            "trouble": told(error),
        }
        return
    values = {"name": topic.name, "held": use.held, "readers": ", ".join(use.readers)}
    if use.readers:
        yield _("%(name)s: %(held)s messages; it is read by %(readers)s") % values
    else:
        yield _("%(name)s: %(held)s messages; no group reads it") % values


@admin.register(Topic)
class TopicAdmin(DecidedAdmin):
    """Topics: the name is fixed once given, and so is what becomes of old messages."""

    form = TopicForm  # type: ignore[assignment]
    fields = (*TopicForm.Meta.fields, "drain")
    actions = ["delete_topics"]
    list_display = [
        "name", "type", "queue_count", "write_queue_count", "perm", "expires_ms", "retention_ms",
        "cleanup", "updated_at",
    ]  # fmt: skip
    list_filter = ["type", "perm"]
    search_fields = ["name"]
    show_full_result_count = False

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Return what is fixed of a topic that exists."""
        fixed = [] if obj is None else ["name", "cleanup"]
        return [*fixed, *super().get_readonly_fields(request, obj)]

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        """Save through the service; PermissionDenied for a new name one may not use."""
        assert isinstance(obj, Topic)
        asking.require_within(
            request, Action.UPDATE if change else Action.CREATE, topic_of(obj.name)
        )
        changed = services.create_or_change_topic(
            name=obj.name,
            queue_count=obj.queue_count,
            type=TopicType(obj.type),
            perm=obj.perm,
            expires_ms=obj.expires_ms,
            retention_ms=obj.retention_ms,
            cleanup=Cleanup(obj.cleanup),
            lite_ttl_minutes=obj.lite_ttl_minutes,
            # A box that is not ticked is nothing said, and not the order to open what waits.
            drain=form.cleaned_data["drain"] or None,
            by=actor_of(request),
        )
        obj.pk = changed.topic.pk

    @confirmed(
        description=gettext_lazy("Delete (asks for a reason)"),
        title=gettext_lazy("Delete topics"),
        said=gettext_lazy(
            "Their messages are read by nobody any more, and go with the log. There is no way "
            "back: a topic that is made with the same name is empty."
        ),
        button=gettext_lazy("Delete them"),
        call=Call("DELETE", "api/v1/topics/<str:topic>"),
        permission="topics.delete_topic",
        parts=lambda topic: {"topic": topic.name},
        form=DeletionForm,
        things_max=_DELETED_MAX,
        plan=_what_goes,
    )
    def delete_topics(self, request: HttpRequest, topic: Topic, chosen: Chosen) -> str:
        """Delete one topic, unless somebody reads it and that was not allowed for."""
        assert chosen.form is not None
        services.delete_topic(
            name=topic.name,
            by=actor_of(request),
            reason=chosen.form.cleaned_data["reason"],
            even_in_use=chosen.form.cleaned_data["even_in_use"],
        )
        return _("The topic %(name)s is deleted.") % {"name": topic.name}

    def get_actions(self, request: HttpRequest) -> Any:
        """Return the actions; Django's own deletion would ask for no reason."""
        found = super().get_actions(request)
        found.pop("delete_selected", None)
        return found

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Ask for the deletion of one topic as for that of several, or carry it out."""
        number = unquote(object_id)
        chosen = Topic.objects.filter(pk=int(number) if number.isdecimal() else 0)
        return self.delete_topics(request, chosen) or HttpResponseRedirect(
            reverse("admin:topics_topic_changelist")
        )


@admin.register(MessageQueue)
class MessageQueueAdmin(ReadOnlyAdmin):
    """Queues, to look at: their rows follow the topic's queue count."""

    list_display = ["topic", "number", "perm"]
    list_filter = ["perm"]
    list_select_related = ["topic"]
    search_fields = ["topic__name"]
