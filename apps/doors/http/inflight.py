"""Bytes of requests and answers that are under way, all connections together. Knows no verb."""

from apps.doors.http.refusals import Refusal


class InFlight:
    """Counts what the door holds in memory, and refuses more than it may."""

    __slots__ = ("bytes", "bytes_max", "refused_count")

    def __init__(self, bytes_max: int) -> None:
        """Start empty."""
        self.bytes = 0
        self.bytes_max = bytes_max
        self.refused_count = 0

    def check(self, coming_bytes: int = 0) -> None:
        """Raise Refusal when so many bytes more would be too many."""
        if self.bytes + coming_bytes > self.bytes_max:
            self.refused_count += 1
            raise Refusal(
                "overloaded",
                f"requests and answers under way take {self.bytes} of {self.bytes_max} bytes",
                headers=((b"retry-after", b"1"),),
            )


class Share:
    """What one request holds of it."""

    __slots__ = ("_in_flight", "bytes")

    def __init__(self, in_flight: InFlight) -> None:
        """Hold nothing yet."""
        self._in_flight = in_flight
        self.bytes = 0

    def expect(self, coming_bytes: int) -> None:
        """Raise Refusal when there is no room for what is announced; hold nothing of it yet."""
        self._in_flight.check(coming_bytes)

    def take(self, size_bytes: int) -> None:
        """Hold so many bytes more. Raises Refusal when that is too many."""
        self._in_flight.check(size_bytes)
        self.add(size_bytes)

    def add(self, size_bytes: int) -> None:
        """Hold what is there already and cannot be refused any more."""
        self._in_flight.bytes += size_bytes
        self.bytes += size_bytes

    def release(self) -> None:
        """Hold nothing any more."""
        self._in_flight.bytes -= self.bytes
        self.bytes = 0
