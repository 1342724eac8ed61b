"""What one client may ask for, as a connection of the lane asks. Knows the limits; no frames."""

from apps.doors.guard.clients import ClientLimits, TooMany
from apps.doors.http.refusals import Refusal


class Limits:
    """The allowance of the client of one connection, which it may have several of."""

    def __init__(self, limits: ClientLimits, client: str) -> None:
        """Ask for `client`, by the name that every door gives it."""
        self._limits = limits
        self._client = client

    def enter(self, size_bytes: int) -> None:
        """Begin a request with a body of so many bytes; raise Refusal with nothing begun."""
        try:
            self._limits.enter(self._client, size_bytes)
        except TooMany as refusal:
            wait = b"%d" % refusal.retry_after_s
            raise Refusal(
                "too_many_requests", str(refusal), headers=((b"retry-after", wait),)
            ) from refusal

    def leave(self) -> None:
        """End a request that has begun."""
        self._limits.leave(self._client)
