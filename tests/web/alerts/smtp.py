"""A real mail server on this machine: TLS and accounts as asked; it keeps what came."""

import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.web.product import free_port

USER, PASSWORD = "alerts", "pa ss-word%+="
NOBODY = "nobody@example.com"


class Box:
    """Takes mail for everybody but one, and counts who tried to come in."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.recipients: list[list[str]] = []
        self.logins: list[bool] = []
        self.was_secure: list[bool] = []
        self.fails_next = False

    async def handle_RCPT(  # noqa: N802  # The server's own name.
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Refuse one recipient."""
        del server, session, options
        if address == NOBODY:
            return "550 no such user here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Keep a message."""
        del server
        if self.fails_next:
            self.fails_next = False
            return "451 try later"
        assert isinstance(envelope.content, bytes)
        self.messages.append(message_from_bytes(envelope.content))
        self.recipients.append(list(envelope.rcpt_tos))
        self.was_secure.append(session.ssl is not None)
        return "250 OK"

    def authenticated(
        self, server: SMTP, session: Session, envelope: Envelope, how: str, data: Any
    ) -> AuthResult:
        """Say whether an account and its password are right."""
        del server, session, envelope, how
        is_known = isinstance(data, LoginPassword) and (data.login, data.password) == (
            USER.encode(), PASSWORD.encode(),
        )  # fmt: skip
        self.logins.append(is_known)
        return AuthResult(success=is_known, handled=False)


def certificate(directory: Path) -> tuple[Path, Path]:
    """Make a certificate of `localhost` that nobody else has signed."""
    key, found = directory / "key.pem", directory / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", key, "-out", found, "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    return found, key


@contextmanager
def served(box: Box, *, port: int = 0, **options: Any) -> Iterator[int]:
    """Serve until the end of the block; give the port."""
    port = port or free_port()
    controller = Controller(box, hostname="127.0.0.1", port=port, **options)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


def context_of(found: Path, key: Path) -> ssl.SSLContext:
    """Return what a server needs for TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(found, key)
    return context
