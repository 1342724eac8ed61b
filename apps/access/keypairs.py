"""A token as a pair of keys, for clients that sign instead of sending it. Knows no door and no row.

The access key is how the token begins, which is no secret. The secret key is made of the token's
digest and the installation's secret key: whoever has the database alone can sign nothing, and
nothing more is kept than before.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass, field

_LABEL = b"mqweb's secret key of a token, version 1"
_PREFIX = "mqs_"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """What a client that signs is set up with."""

    access_key: str
    secret_key: str = field(repr=False)


def secret_key_of(digest: bytes, secret_key: str) -> str:
    """Return the secret key of a token, by its digest and the installation's secret key."""
    mac = hmac.new(secret_key.encode(), _LABEL + digest, hashlib.sha256).digest()
    return _PREFIX + base64.urlsafe_b64encode(mac).rstrip(b"=").decode("ascii")
