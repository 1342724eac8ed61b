"""Rules to begin with, which operators change as they like. Nothing happens where rules exist."""

from typing import Any

from django.db import migrations
from django.utils import timezone

# Name, kind, threshold, seconds pending, severity.
FIRST_RULES = (
    ("Broker or sampler is silent", "no_samples", 30, 0, "critical"),
    ("Disk is filling up", "disk", 80, 60, "warning"),
    ("Disk is nearly full", "disk", 88, 60, "critical"),
    ("Queue is blocked", "blocked_queue", 1, 60, "critical"),
    ("Group is far behind", "lag", 10_000, 300, "warning"),
    ("Messages wait too long", "oldest_age", 600, 60, "warning"),
    ("Nobody reads what waits", "silent_group", 1, 300, "warning"),
    ("Messages die", "dead_letters", 10, 0, "warning"),
    ("Locks are refused", "lock_refusals", 60, 120, "info"),
)


def add_first_rules(apps: Any, _editor: Any) -> None:
    """Add the rules, unless there is one already."""
    rule = apps.get_model("alerts", "AlertRule")
    if rule.objects.exists():
        return
    now = timezone.now()
    rule.objects.bulk_create(
        rule(
            name=name,
            kind=kind,
            threshold=threshold,
            pending_s=pending_s,
            severity=severity,
            created_by="mqweb",
            created_at=now,
            updated_by="mqweb",
            updated_at=now,
        )
        for name, kind, threshold, pending_s, severity in FIRST_RULES
    )


class Migration(migrations.Migration):

    dependencies = [
        ("alerts", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(add_first_rules, migrations.RunPython.noop),
    ]
