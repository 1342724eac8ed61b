"""Rows of the alerts: rules and silences, what they found, channels and what they were told."""

from apps.alerts.models.alerts import Alert, AlertEvent, Watch
from apps.alerts.models.channels import (
    Channel,
    ChannelKind,
    Delivery,
    Notification,
    NotificationState,
)
from apps.alerts.models.rules import AlertRule, Silence

__all__ = [
    "Alert",
    "AlertEvent",
    "AlertRule",
    "Channel",
    "ChannelKind",
    "Delivery",
    "Notification",
    "NotificationState",
    "Silence",
    "Watch",
]
