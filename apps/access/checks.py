"""System checks of access: what would let passwords and tokens be read on their way."""

import ipaddress
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, register


@register(deploy=True)
def secrets_travel_by_tls(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Warn of an address that others reach without TLS in front of it."""
    del app_configs
    environment = settings.MQWEB
    if environment.auth == "off" or environment.https or _is_loopback(environment.host):
        return []
    return [
        checks.Warning(
            "MQWEB_AUTH=on without MQWEB_HTTPS: passwords and tokens can be read on their way",
            hint="Put a server with TLS in front, and set MQWEB_HTTPS=on.",
            id="mqweb.W002",
        )
    ]


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
