"""Where a broker is and how a request to it begins. Knows URLs and request heads."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mqclient.errors import InvalidArgument

DEFAULT_SERVER = "http://127.0.0.1:8000"
API = "/api/v1"


def end_head(start: bytes, body_bytes: int) -> bytes:
    """Return a whole head; `start` as `head_start` gives it."""
    return b"%b%d\r\n\r\n" % (start, body_bytes)


@dataclass(slots=True, kw_only=True)
class Endpoint:
    """A broker's address and the caller's token; builds request heads."""

    host: str
    port: int
    is_tls: bool = False
    prefix: str = ""
    token: str | None = None
    _tails: dict[tuple[str, str], bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, server: str, token: str | None = None) -> "Endpoint":
        """Read a server's URL; raise InvalidArgument when it is none."""
        try:
            parts = urlsplit(server)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise InvalidArgument(f"{server!r} is no URL: {error}") from error
        if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
            raise InvalidArgument(f"{server!r} is no URL such as {DEFAULT_SERVER}")
        if parts.username is not None:
            raise InvalidArgument("a server's URL carries no user; give a token")
        if token is not None and not (token.isascii() and token.isprintable()):
            raise InvalidArgument("a token is printable ASCII")
        is_tls = parts.scheme == "https"
        return cls(
            host=host,
            port=port or (443 if is_tls else 80),
            is_tls=is_tls,
            prefix=parts.path.rstrip("/"),
            token=token,
        )

    def head(
        self, method: str, target: str, *, accept: str, content_type: str, body_bytes: int
    ) -> bytes:
        """Return the request line and headers; an empty content type means no body."""
        tail = self._tails.get((accept, content_type))
        if tail is None:
            tail = self._tails[accept, content_type] = self._tail(accept, content_type)
        line = f"{method} {self.prefix}{target} HTTP/1.1\r\n".encode("ascii")
        if not content_type:
            return b"%b%b\r\n" % (line, tail)
        return b"%b%bContent-Length: %d\r\n\r\n" % (line, tail, body_bytes)

    def head_start(self, method: str, target: str, *, accept: str, content_type: str) -> bytes:
        """Return all of a head with a body but its length, for `end_head` to add."""
        line = f"{method} {self.prefix}{target} HTTP/1.1\r\n".encode("ascii")
        return b"%b%bContent-Length: " % (line, self._tail(accept, content_type))

    def upgrade(self, target: str, protocol: str) -> bytes:
        """Return a request to go on in another protocol."""
        line = f"GET {self.prefix}{target} HTTP/1.1\r\n".encode("ascii")
        asked = f"Connection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n".encode("ascii")
        return line + self._tail("*/*", "") + asked

    def _tail(self, accept: str, content_type: str) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = [f"Host: {host}:{self.port}", "User-Agent: mqclient", f"Accept: {accept}"]
        if self.token is not None:
            lines.append(f"Authorization: Bearer {self.token}")
        if content_type:
            lines.append(f"Content-Type: {content_type}")
        return "".join(f"{line}\r\n" for line in lines).encode("latin-1")
