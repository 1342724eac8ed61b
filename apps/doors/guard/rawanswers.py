"""Whole HTTP answers as bytes, for who answers beside the server. Knows problems, no sockets."""

import json
import secrets

from apps.core import problems
from apps.doors.http import health


def raw_answer(code: str, detail: str, *, retry_after_s: int = 1) -> bytes:
    """Return a whole HTTP answer with a problem document that ends its connection."""
    kind = problems.KINDS[code]
    request_id = secrets.token_hex(8)
    document = problems.problem_of_kind(code, detail=detail, request_id=request_id)
    body = json.dumps(document).encode()
    head = (
        f"HTTP/1.1 {kind.status} {kind.title}\r\nconnection: close\r\n"
        f"content-type: {problems.MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
        f"retry-after: {retry_after_s}\r\nx-request-id: {request_id}\r\n\r\n"
    )
    return head.encode() + body


def healthy_answer() -> bytes:
    """Return the answer of `/healthz`: the process is there."""
    status, (name, kind), body = health.alive()
    assert isinstance(body, bytes)
    head = b"HTTP/1.1 %d OK\r\nconnection: close\r\n%s: %s\r\ncontent-length: %d\r\n\r\n"
    return head % (status, name, kind, len(body)) + body
