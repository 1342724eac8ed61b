"""Admin of consumer offsets and members, to look at: the engine knows them."""

from django.contrib import admin

from apps.core.admin import ReadOnlyAdmin
from apps.groups.models import ConsumerOffset, Member


@admin.register(ConsumerOffset)
class ConsumerOffsetAdmin(ReadOnlyAdmin):
    """Progress per group and queue, at most a few seconds old."""

    list_display = ["group", "topic", "queue", "committed", "delivered", "updated_at"]
    search_fields = ["group", "topic"]


@admin.register(Member)
class MemberAdmin(ReadOnlyAdmin):
    """Clients of groups that received lately."""

    list_display = ["group", "client_id", "topics", "first_seen_at", "last_seen_at"]
    search_fields = ["group", "client_id"]
