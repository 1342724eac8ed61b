"""Shapes of the audit log's answers."""

from typing import Any

from rest_framework import serializers

from apps.audit.models import Result
from apps.core.origins import Door


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
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
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
