"""How background threads tell the consumer's thread that something came, or that all is lost.

Knows a condition and a pair of sockets for event loops; nothing of what came.
"""

import socket
import threading
from contextlib import suppress

_WAKE = b"\0"
_READ_BYTES = 64


class News:
    """One lock for everything that waits to be delivered, and two ways to be woken for it."""

    def __init__(self) -> None:
        """Have no news."""
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self._failure: Exception | None = None
        self._sockets: tuple[socket.socket, socket.socket] | None = None
        self._is_signalled = False

    def tell(self) -> None:
        """Wake who waits; the lock is held."""
        self._changed.notify_all()
        if self._sockets is not None and not self._is_signalled:
            self._is_signalled = True
            self._sockets[1].send(_WAKE)

    def fail(self, error: Exception) -> None:
        """Have the consumer's thread raise an error; the first one stays."""
        with self.lock:
            self._failure = self._failure or error
            self.tell()

    @property
    def has_failed(self) -> bool:
        """Tell whether there is an error to raise."""
        return self._failure is not None

    def check(self) -> None:
        """Raise the error that was told, if any."""
        if self._failure is not None:
            raise self._failure

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for news with the lock held; return False when the time is over first."""
        return self._changed.wait(timeout_s)

    def open(self) -> int:
        """Return a descriptor that is readable while there is news."""
        with self.lock:
            if self._sockets is None:
                self._sockets = socket.socketpair()
                for end in self._sockets:
                    end.setblocking(False)
                self.tell()
            return self._sockets[0].fileno()

    def clear(self) -> None:
        """Have the descriptor be readable again only after further news; the lock is held."""
        if self._sockets is not None:
            self._is_signalled = False
            with suppress(BlockingIOError):
                self._sockets[0].recv(_READ_BYTES)

    def close(self) -> None:
        """Close the sockets."""
        with self.lock:
            self.forget()

    def forget(self) -> None:
        """Close the sockets without the lock, as a forked child does with its copies."""
        sockets, self._sockets = self._sockets, None
        for end in sockets or ():
            end.close()
