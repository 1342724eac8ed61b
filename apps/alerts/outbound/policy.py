"""What the settings allow webhooks to reach. Knows the settings."""

from django.conf import settings

from apps.alerts.outbound.targets import Policy


def configured() -> Policy:
    """Return the policy of this server."""
    telling = settings.MQWEB.telling
    return Policy(hosts=telling.webhook_hosts, trusted=frozenset(telling.webhook_trusted))
