"""One POST to one address that was checked. Knows sockets; no row and no setting.

No redirect is followed, no proxy of the environment is asked, and everything together has a
deadline: whoever answers a byte a second is cut off.
"""

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from apps.alerts.outbound.targets import Policy, RefusedTarget, parsed, resolved

CONNECT_S = 3.0
DEADLINE_S = 6.0
# Of an answer so much is read: DingTalk says there what its status does not.
ANSWER_BYTES_MAX = 2_048

Resolve = Callable[[str, int], Sequence[str]]


class PostFailed(Exception):
    """Nothing was answered; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The status that was answered, and the beginning of the body."""

    status: int
    body: bytes


def system_addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a name as the system's resolver gives them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(row[4][0]) for row in found]


def post(url: str, body: bytes, *, policy: Policy, resolve: Resolve = system_addresses) -> Answer:
    """Post JSON and return what was answered, whatever it was.

    Raises RefusedTarget where the address is not allowed, PostFailed where nobody answers in time.
    """
    target = parsed(url, policy)
    try:
        addresses = resolved(target, resolve)
    except OSError as error:
        raise PostFailed(f"the name {target.host} cannot be resolved") from error
    connection = _Pinned(
        target.host, target.port, address=addresses[0], is_secure=target.scheme == "https"
    )
    # A reader of lines has a time-out for each of them, and none for all together.
    watchdog = threading.Timer(DEADLINE_S, connection.cut)
    watchdog.start()
    try:
        connection.request(
            "POST",
            target.path,
            body=body,
            headers={
                "Host": target.authority,
                "Content-Type": "application/json; charset=utf-8",
                "User-Agent": "mqweb-alerts/1",
                "Connection": "close",
            },
        )
        answer = connection.getresponse()
        return Answer(status=answer.status, body=answer.read(ANSWER_BYTES_MAX))
    except (OSError, http.client.HTTPException) as error:
        reason = f"no answer within {DEADLINE_S:.0f} s" if connection.was_cut else str(error)
        raise PostFailed(reason or type(error).__name__) from error
    finally:
        watchdog.cancel()
        connection.close()


class _Pinned(http.client.HTTPConnection):
    """A connection to an address that was checked, under the name it was checked for."""

    def __init__(self, host: str, port: int, *, address: str, is_secure: bool) -> None:
        super().__init__(host, port, timeout=CONNECT_S)
        self._address = address
        self._is_secure = is_secure
        self.was_cut = False

    def connect(self) -> None:
        """Connect to the address; the name is not resolved again."""
        self.sock = socket.create_connection((self._address, self.port), timeout=CONNECT_S)
        if self._is_secure:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self.sock, server_hostname=self.host)

    def cut(self) -> None:
        """End whatever is under way, from another thread."""
        self.was_cut = True
        if self.sock is not None:
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                # It has ended by itself.
                return


__all__ = ["Answer", "PostFailed", "RefusedTarget", "post", "system_addresses"]
