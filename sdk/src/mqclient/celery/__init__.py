"""Celery over mqweb: importing this package registers the transport `mqweb://HOST:PORT//`.

Knows kombu's contracts and the SDK's calls; Celery itself is never imported here.
"""

from kombu.transport import TRANSPORT_ALIASES

from mqclient.celery.options import Options
from mqclient.celery.transport import Transport

TRANSPORT_ALIASES["mqweb"] = "mqclient.celery.transport:Transport"

__all__ = ["Options", "Transport"]
