"""Who calls: the Authorization header of RocketMQ's clients, and its signature. Knows no row.

`MQv2-HMAC-SHA1 Credential=KEY[/REGION/SERVICE], SignedHeaders=x-mq-date-time, Signature=HEX`

Nothing but the text of the date is signed, and clients write the time of their own zone as UTC: a
signature that was seen once is good for ever, so it needs TLS wherever others listen.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping

from apps.access.gate import Gate, Rights, unauthenticated

AUTHORIZATION = "authorization"
SESSION_TOKEN = "x-mq-session-token"  # noqa: S105 - the name of a header.
DATE_TIME = "x-mq-date-time"

_SIGNED = re.compile(
    r"MQv2-HMAC-SHA1\s+Credential=([^,\s]*)\s*,\s*SignedHeaders=[^,]*,\s*Signature=([0-9A-Fa-f]*)\s*"
)
_HEADER_CHARACTERS_MAX = 2048


def rights_of(gate: Gate, headers: Mapping[str, str], peer: tuple[str, int] | None) -> Rights:
    """Return the rights of who sent the headers; raise Denied.

    A token itself is taken too, as a session token or a bearer's: for clients that can send one.
    """
    session_token = headers.get(SESSION_TOKEN)
    if session_token:
        return gate.rights_of(b"Bearer " + _bytes(session_token), peer)
    authorization = headers.get(AUTHORIZATION)
    if authorization is None:
        raise unauthenticated("give an access key and a secret key", is_wrong=False)
    if not authorization.startswith("MQv2-"):
        return gate.rights_of(_bytes(authorization), peer)
    found = None
    if len(authorization) <= _HEADER_CHARACTERS_MAX:
        found = _SIGNED.fullmatch(authorization)
    if found is None:
        raise unauthenticated("the Authorization header is no signature", is_wrong=True)
    # Some clients add a region and a service.
    access_key = found[1].partition("/")[0]
    if not access_key:
        raise unauthenticated("the access key is empty", is_wrong=False)
    # Upper case and lower case digits both come.
    signature = bytes.fromhex(found[2]) if len(found[2]) % 2 == 0 else b""
    signed = _bytes(headers.get(DATE_TIME, ""))

    def is_signed_with(secret_key: str) -> bool:
        return hmac.compare_digest(signature_of(secret_key, signed), signature)

    return gate.rights_of_signer(access_key, is_signed_with, peer)


def signature_of(secret_key: str, signed: bytes) -> bytes:
    """Return what a client signs the text of a date with."""
    return hmac.new(secret_key.encode(), signed, hashlib.sha1).digest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
