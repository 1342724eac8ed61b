"""Admin of the delay levels, to look at: the task that delivers them writes these rows."""

from django.contrib import admin

from apps.core.admin import ReadOnlyAdmin
from apps.delays.models import DelayLevel


@admin.register(DelayLevel)
class DelayLevelAdmin(ReadOnlyAdmin):
    """How far each level is, at most a few seconds old while the clockwork runs."""

    list_display = [
        "level", "delay_ms", "pending", "delivered", "max_offset", "head_due_at", "late_ms",
        "sampled_at",
    ]  # fmt: skip
