"""The queue that strategies share out. Knows names only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class BrokerQueue:
    """A queue of a topic on a broker; in order of topic, broker and number."""

    topic: str
    broker: str
    queue: int

    @property
    def room(self) -> str:
        """Return the room of a broker called `room@name`; empty for one that is in none."""
        room, _, name = self.broker.partition("@")
        return room if name and "@" not in name else ""


Shares = dict[str, list[BrokerQueue]]
"""The queues of each client, in order. A client that gets nothing has an empty list."""
