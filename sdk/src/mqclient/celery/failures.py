"""Which errors kombu takes for a lost connection, and which for a refused request.

Knows the error trees of both sides; raises nothing by itself.
"""

from kombu.exceptions import ChannelError
from kombu.exceptions import ConnectionError as KombuConnectionError

from mqclient.errors import Busy, Closed, Refused, ServerFailed, Unreachable

# Another connection may help. kombu raises its own for a channel whose connection is gone.
CONNECTION_ERRORS: tuple[type[Exception], ...] = (
    KombuConnectionError,
    Unreachable,
    Busy,
    ServerFailed,
    Closed,
)
# The request is wrong as it stands, and the connection is as good as before.
CHANNEL_ERRORS: tuple[type[Exception], ...] = (ChannelError, Refused)
