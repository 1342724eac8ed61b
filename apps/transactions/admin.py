"""Admin of what people decided about transactions, to look at."""

from django.contrib import admin

from apps.core.admin import ReadOnlyAdmin
from apps.transactions.models import TransactionDecision


@admin.register(TransactionDecision)
class TransactionDecisionAdmin(ReadOnlyAdmin):
    """Who asked for what, when, and what the engine said."""

    list_display = [
        "at", "by", "asked", "answer", "topic", "producer_group", "message_id", "transaction_id",
        "detail", "reason",
    ]  # fmt: skip
    list_filter = ["asked", "answer", "at"]
    search_fields = ["transaction_id__exact", "message_id__exact", "by", "topic"]
