"""The headers of a request: who asks, and the proof of it. Knows strings and a clock."""

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, field

from mqclient.clock import Clock
from mqclient.rocketmq.address import PeerSettings

Metadata = tuple[tuple[str, str], ...]

_VERSION = "5.0.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One client by its id, which the other side knows its settings by."""

    settings: PeerSettings
    clock: Clock
    client_id: str = field(default_factory=lambda: f"mqclient@{secrets.token_hex(8)}")

    def headers(self) -> Metadata:
        """Return the headers of the next request.

        Only the date is signed, as the protocol has it: on a network of others it takes TLS.
        """
        moment = time.gmtime(self.clock.wall_ms() // 1000)
        date = time.strftime("%Y%m%dT%H%M%SZ", moment)
        found = [
            ("x-mq-client-id", self.client_id),
            ("x-mq-language", "PYTHON"),
            ("x-mq-client-version", _VERSION),
            ("x-mq-protocol", "GRPC_V2"),
            ("x-mq-request-id", secrets.token_hex(16)),
            ("x-mq-date-time", date),
        ]
        if self.settings.namespace:
            found.append(("x-mq-namespace", self.settings.namespace))
        if self.settings.access_key is not None and self.settings.secret is not None:
            signature = hmac.new(self.settings.secret.encode(), date.encode(), hashlib.sha1)
            found.append(
                (
                    "authorization",
                    f"MQv2-HMAC-SHA1 Credential={self.settings.access_key}, "
                    f"SignedHeaders=x-mq-date-time, Signature={signature.hexdigest().upper()}",
                )
            )
        return tuple(found)
