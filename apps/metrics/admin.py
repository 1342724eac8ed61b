"""Admin of the statistics, to look at: tasks write, roll up and delete these rows themselves."""

from django.contrib import admin

from apps.core.admin import ReadOnlyAdmin
from apps.metrics.models import (
    GroupSample,
    GroupSummary,
    StoreSample,
    TopicSample,
    TopicSummary,
)


class SampleAdmin(ReadOnlyAdmin):
    """What the rows of all kinds have in common."""

    list_filter = ["resolution_s"]


@admin.register(TopicSample)
class TopicSampleAdmin(SampleAdmin):
    """Topics over time; the search is for a whole name."""

    list_display = ["at", "resolution_s", "topic", "sent", "held", "send_rate", "samples"]
    search_fields = ["topic__exact"]


@admin.register(GroupSample)
class GroupSampleAdmin(SampleAdmin):
    """Groups over time; the search is for a whole name."""

    list_display = [
        "at", "resolution_s", "group", "topic", "lag", "oldest_age_ms", "in_flight",
        "consume_rate", "arrive_rate", "members",
    ]  # fmt: skip
    search_fields = ["group__exact", "topic__exact"]


@admin.register(StoreSample)
class StoreSampleAdmin(SampleAdmin):
    """Everything together over time."""

    list_display = [
        "at", "resolution_s", "send_rate", "consume_rate", "lag", "oldest_age_ms", "in_flight",
        "held", "log_bytes", "disk_percent",
    ]  # fmt: skip


@admin.register(GroupSummary)
class GroupSummaryAdmin(ReadOnlyAdmin):
    """Groups as the newest sample has them."""

    list_display = [
        "name", "sampled_at", "lag", "oldest_age_ms", "members", "blocked", "retry_lag",
        "dead_letters", "consume_rate", "arrive_rate",
    ]  # fmt: skip
    list_filter = ["is_ordered"]
    search_fields = ["name"]


@admin.register(TopicSummary)
class TopicSummaryAdmin(ReadOnlyAdmin):
    """Topics as the newest sample has them."""

    list_display = [
        "name", "sampled_at", "type", "queue_count", "held", "send_rate", "group_count", "lag",
        "oldest_age_ms", "blocked",
    ]  # fmt: skip
    list_filter = ["type", "cleanup"]
    search_fields = ["name"]
