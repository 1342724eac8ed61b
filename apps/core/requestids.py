"""Names for single requests, so that an answer and a log line can be matched. Pure: no Django."""

import re
import secrets
from contextvars import ContextVar

HEADER = "X-Request-Id"

# What a caller may choose: it is written into logs and headers.
_ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,64}")

current: ContextVar[str] = ContextVar("request_id", default="")


def request_id_from(offered: str | None) -> str:
    """Return the caller's own id when it is well-formed, otherwise a fresh one."""
    if offered is not None and _ACCEPTED.fullmatch(offered):
        return offered
    return secrets.token_hex(8)
