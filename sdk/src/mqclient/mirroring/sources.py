"""What an outward mirror reads from: what to copy next, and how far it came. Knows no reader."""

from abc import ABC, abstractmethod

from mqclient.mirroring.pace import Pace
from mqclient.mirroring.settings import MirrorSettings
from mqclient.wire.records import Message

# How late a signal or the end is noticed.
LOOK_S = 0.5


class Source(ABC):
    """The messages of a topic for a group; use one thread."""

    def __init__(self, settings: MirrorSettings, pace: Pace) -> None:
        """Read nothing yet."""
        self._settings = settings
        self._pace = pace

    @abstractmethod
    def begin(self) -> None:
        """Find where the group is, and record where it begins; raise MqError or Stopped."""

    @abstractmethod
    def take(self) -> list[Message] | None:
        """Return the next messages, at most a batch; raise MqError or Stopped.

        None came in time where it is empty, and none will come where it is None. What shares a
        lane is in order.
        """

    @abstractmethod
    def lane_of(self, message: Message) -> str | None:
        """Return what a message's order is kept among; None where it has none."""

    @abstractmethod
    def commit(self) -> None:
        """Move the group behind what was taken; raise MqError or Stopped."""
