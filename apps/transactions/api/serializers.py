"""Shapes of transactions on the wire. Unknown is null."""

from typing import Any

from rest_framework import serializers

from apps.core.moments import moment
from apps.core.pagination import rfc3339, sampled_at
from apps.engine.transactiontypes import PendingTransaction, TransactionStatus


class TransactionDocument(serializers.Serializer[Any]):
    """A half message nobody has decided about."""

    transaction_id = serializers.CharField()
    topic = serializers.CharField()
    queue = serializers.IntegerField()
    message_id = serializers.CharField()
    producer_group = serializers.CharField()
    tag = serializers.CharField(allow_null=True)
    keys = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Null for a caller who may not peek into the topic.",
    )
    size_bytes = serializers.IntegerField()
    begun_at = serializers.DateTimeField()
    checks = serializers.IntegerField(help_text="How often its producers were asked.")
    next_check_at = serializers.DateTimeField(
        allow_null=True, help_text="Null: it is not checked any more, and will be given up."
    )
    last_check_at = serializers.DateTimeField(allow_null=True)
    last_client_id = serializers.CharField(
        allow_null=True, help_text="The producer that was asked last."
    )
    producers = serializers.IntegerField(help_text="Clients of its group that wait for checks.")


class TransactionList(serializers.Serializer[Any]):
    """A page of undecided transactions, oldest first."""

    items = TransactionDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class TransactionStatusDocument(serializers.Serializer[Any]):
    """Counters; all but those of what is pending are since the broker started."""

    pending = serializers.IntegerField()
    oldest_begun_at = serializers.DateTimeField(allow_null=True)
    begun = serializers.IntegerField()
    committed = serializers.IntegerField()
    rolled_back = serializers.IntegerField()
    given_up = serializers.IntegerField()
    given_up_waiting = serializers.IntegerField(
        help_text="Given-up messages in the log that nobody sent after all, of any time."
    )
    checks = serializers.IntegerField()
    sampled_at = serializers.DateTimeField()


def rendered_transaction(found: PendingTransaction, *, peeks: bool) -> dict[str, object]:
    """Build the JSON shape of an undecided transaction, for who `peeks` with its keys."""
    return {
        "transaction_id": found.transaction_id,
        "topic": found.topic,
        "queue": found.queue,
        "message_id": found.message_id,
        "producer_group": found.producer_group,
        "tag": found.tag or None,
        "keys": found.keys.split() if peeks else None,
        "size_bytes": found.size_bytes,
        "begun_at": _moment(found.begun_ms),
        "checks": found.checks,
        "next_check_at": _moment(found.next_check_ms),
        "last_check_at": _moment(found.last_check_ms),
        "last_client_id": found.last_client_id or None,
        "producers": found.producers,
    }


def rendered_status(status: TransactionStatus) -> dict[str, object]:
    """Build the JSON shape of the counters."""
    return {
        "pending": status.pending,
        "oldest_begun_at": _moment(status.oldest_begun_ms),
        "begun": status.begun,
        "committed": status.committed,
        "rolled_back": status.rolled_back,
        "given_up": status.given_up,
        "given_up_waiting": status.given_up_waiting,
        "checks": status.checks,
        "sampled_at": sampled_at(),
    }


def _moment(time_ms: int | None) -> str | None:
    return None if time_ms is None else rfc3339(moment(time_ms))
