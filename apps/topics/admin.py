"""Admin of topics and queues. Changes go through the same service as the API's."""

# Django names the arguments of these methods, whether we need them or not.
# ruff: noqa: ARG002

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.core.actors import actor_of
from apps.core.admin import ReadOnlyAdmin
from apps.engine import limits
from apps.engine.errors import Refused
from apps.engine.types import Cleanup, TopicType
from apps.topics import services
from apps.topics.models import QUEUE_COUNT_DEFAULT, MessageQueue, Topic
from apps.topics.models import Cleanup as CleanupChoice

if TYPE_CHECKING:
    # Generic for type checkers only: Django's own classes take no parameter.
    TopicModelForm = forms.ModelForm[Topic]
    TopicModelAdmin = admin.ModelAdmin[Topic]
else:
    TopicModelForm = forms.ModelForm
    TopicModelAdmin = admin.ModelAdmin


class TopicForm(TopicModelForm):
    """A topic's values; refused here exactly where the service would refuse them."""

    class Meta:
        model = Topic
        fields = [
            "name", "type", "queue_count", "perm", "expires_ms", "retention_ms", "cleanup",
        ]  # fmt: skip

    queue_count = forms.IntegerField(
        min_value=1,
        max_value=limits.QUEUE_COUNT_MAX,
        initial=QUEUE_COUNT_DEFAULT,
        help_text="Fewer than there are drain: they take no more messages, and go once every "
        "group has read them.",
    )
    cleanup = forms.ChoiceField(
        choices=CleanupChoice,
        required=False,
        help_text="Compact keeps the newest message of each key of each queue for ever, and takes "
        "none without a key. Fixed when the topic is made.",
    )
    drain = forms.BooleanField(
        required=False,
        help_text="Let further queues take messages only once every group has read all there is.",
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
            self.add_error("retention_ms", "A compacted topic keeps the newest of each key.")
        return cleaned

    def get_initial_for_field(self, field: forms.Field, field_name: str) -> Any:
        """Return a field's value as it is now; of a topic that changes its queues, the target."""
        if field_name == "queue_count" and self.instance.pk is not None:
            return self.instance.target_queue_count
        return super().get_initial_for_field(field, field_name)


@admin.register(Topic)
class TopicAdmin(TopicModelAdmin):
    """Topics: the name is fixed once given, and so is what becomes of old messages."""

    form = TopicForm
    list_display = [
        "name", "type", "queue_count", "write_queue_count", "target_queue_count", "perm",
        "expires_ms", "retention_ms", "cleanup", "updated_at",
    ]  # fmt: skip
    list_filter = ["type", "perm"]
    search_fields = ["name"]
    show_full_result_count = False

    def get_readonly_fields(self, request: HttpRequest, obj: Topic | None = None) -> list[str]:
        """Return what is fixed of a topic that exists."""
        return [] if obj is None else ["name", "cleanup"]

    def save_model(self, request: HttpRequest, obj: Topic, form: Any, change: bool) -> None:
        """Save through the service."""
        changed = services.create_or_change_topic(
            name=obj.name,
            queue_count=obj.queue_count,
            type=TopicType(obj.type),
            perm=obj.perm,
            expires_ms=obj.expires_ms,
            retention_ms=obj.retention_ms,
            cleanup=Cleanup(obj.cleanup),
            # A box that is not ticked is nothing said, and not the order to open what waits.
            drain=form.cleaned_data["drain"] or None,
            by=actor_of(request),
        )
        obj.pk = changed.topic.pk

    def delete_model(self, request: HttpRequest, obj: Topic) -> None:
        """Delete through the service."""
        services.delete_topic(name=obj.name, by=actor_of(request))

    def get_deleted_objects(
        self, objs: Sequence[Any] | QuerySet[Any], request: HttpRequest
    ) -> tuple[list[Any], dict[str, int], set[str], list[Any]]:
        """Name what goes with the topics; queues may go with their topic, never alone."""
        objects, counts, permissions_needed, protected = super().get_deleted_objects(objs, request)
        permissions_needed.discard(str(MessageQueue._meta.verbose_name))
        return objects, counts, permissions_needed, protected

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Topic]) -> None:
        """Delete the chosen topics through the service."""
        names = list(queryset.values_list("name", flat=True))
        for name in names:
            services.delete_topic(name=name, by=actor_of(request))
        self.message_user(request, f"{len(names)} topics deleted", messages.SUCCESS)


@admin.register(MessageQueue)
class MessageQueueAdmin(ReadOnlyAdmin):
    """Queues, to look at: their rows follow the topic's queue count."""

    list_display = ["topic", "number", "perm"]
    list_filter = ["perm"]
    list_select_related = ["topic"]
    search_fields = ["topic__name"]
