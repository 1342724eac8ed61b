"""Shapes of the audit log's answers."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.audit.models import Result
from apps.core.origins import Door


@extend_schema_field({"description": "Any JSON; null where there is nothing to say."})
class _AnyJson(serializers.JSONField):
    """A value as it was written down. Not said to be nullable: null is any JSON already."""


class AuditEntryDocument(serializers.Serializer[Any]):
    """One entry."""

    number = serializers.CharField(help_text="Without gaps, from 1.")
    at = serializers.DateTimeField()
    by = serializers.CharField()
    door = serializers.ChoiceField([door.value for door in Door])
    address = serializers.CharField(allow_null=True, help_text="Of the peer that asked.")
    agent = serializers.CharField(allow_null=True, help_text="What the peer says it is.")
    request_id = serializers.CharField(allow_null=True)
    act = serializers.CharField(help_text="`object.verb`, such as `topic.delete`.")
    kind = serializers.CharField(help_text="What the object is.")
    name = serializers.CharField(help_text="What the object is called.")
    reason = serializers.CharField(allow_null=True)
    before = _AnyJson()
    after = _AnyJson()
    result = serializers.ChoiceField(Result.values)
    code = serializers.CharField(allow_null=True, help_text="Of the refusal.")
    detail = serializers.CharField(allow_null=True)
    follows = serializers.CharField(
        allow_null=True, help_text="Number of the entry, `asked`, whose outcome this one is."
    )
    count = serializers.IntegerField(help_text="Refusals of one minute that were put together.")
    previous_hash = serializers.CharField()
    hash = serializers.CharField(help_text="SHA-256; how it is taken is in docs/FORMAT.md.")


class WholeAuditEntryDocument(AuditEntryDocument):
    """One entry with the number of its outcome."""

    outcome = serializers.CharField(
        allow_null=True, help_text="Number of the entry that says what came of this one."
    )


class AuditEntryList(serializers.Serializer[Any]):
    """One page of entries."""

    items = AuditEntryDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()
