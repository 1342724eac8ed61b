"""Admin of consumer offsets, to look at: the engine keeps them."""

from django.contrib import admin

from apps.core.admin import ReadOnlyAdmin
from apps.groups.models import ConsumerOffset


@admin.register(ConsumerOffset)
class ConsumerOffsetAdmin(ReadOnlyAdmin):
    """Progress per group and queue, at most a few seconds old."""

    list_display = ["group", "topic", "queue", "committed", "delivered", "updated_at"]
    search_fields = ["group", "topic"]
