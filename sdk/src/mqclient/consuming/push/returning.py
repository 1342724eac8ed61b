"""Sending failed messages back to the broker, for a later try or to the dead letters.

Pure: knows no sockets or threads. A message is this member's until the broker says that it has it.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from mqclient.consuming.push.reading import Owner
from mqclient.consuming.push.settings import PushSettings
from mqclient.consuming.push.snapshot import Snapshot
from mqclient.errors import LockLost, MqError, ProtocolViolation, Refused, StaleGeneration
from mqclient.protocol.calls import Call, Calls
from mqclient.values import Returned
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")

# Straight to the dead letters.
BURY = -1
_MESSAGES_MAX = 100


@dataclass(frozen=True, slots=True)
class _Failed:
    """A message to send back, and what is said about it."""

    snapshot: Snapshot
    message: Message
    level: int | None
    reason: str

    def goes_with(self, other: "_Failed") -> bool:
        """Tell whether both may be in one request."""
        return (
            self.snapshot is other.snapshot
            and self.level == other.level
            and self.reason == other.reason
        )


class Returning:
    """The errand of sending back, one request at a time.

    `on_returned` is told what the broker has; `on_kept` what it has not, and why. A request whose
    outcome is unknown is made again after `retry_delay_ms`: the broker knows what it has already.
    """

    def __init__(
        self,
        settings: PushSettings,
        calls: Calls,
        *,
        generation: Callable[[], int],
        owner: Owner,
        on_returned: Callable[[Snapshot, list[Message]], None],
        on_kept: Callable[[Snapshot, list[Message], MqError], None],
    ) -> None:
        self._settings = settings
        self._calls = calls
        self._generation = generation
        self._owner = owner
        self._on_returned = on_returned
        self._on_kept = on_kept
        self._waiting: deque[_Failed] = deque()
        self._sent: list[_Failed] = []
        self._not_before_s = 0.0

    def add(
        self, snapshot: Snapshot, messages: list[Message], *, level: int | None, reason: str
    ) -> None:
        """Send messages back soon; None leaves it to the group when they come again."""
        self._waiting.extend(_Failed(snapshot, message, level, reason) for message in messages)

    def is_idle(self, now_s: float) -> bool:
        """Tell whether nothing is under way or about to be."""
        return not self._sent and (not self._waiting or now_s < self._not_before_s)

    def next_s(self) -> float | None:
        """Return the moment of the next request, None while one is under way."""
        return self._not_before_s if self._waiting and not self._sent else None

    def begin(self, _now_s: float) -> Call[list[Returned]] | None:
        """Send back what failed first, and what goes with it."""
        # What is lost is the next owner's to fail at.
        self._waiting = deque(item for item in self._waiting if not item.snapshot.is_dropped)
        if not self._waiting:
            return None
        first = self._waiting[0]
        while self._waiting and len(self._sent) < _MESSAGES_MAX:
            if not self._waiting[0].goes_with(first):
                break
            self._sent.append(self._waiting.popleft())
        settings, snapshot = self._settings, first.snapshot
        return self._calls.send_back(
            settings.group,
            settings.client_id,
            snapshot.place,
            [item.message.queue_offset for item in self._sent],
            generation=self._generation(),
            epoch=snapshot.epoch,
            delay_level=first.level,
            reason=first.reason,
        )

    def done(self, answer: list[Returned] | None, error: MqError | None, now_s: float) -> None:
        """Take what became of the messages; what the broker has not stays here."""
        sent, self._sent = self._sent, []
        snapshot = sent[0].snapshot
        messages = [item.message for item in sent]
        if answer is not None and len(answer) != len(sent):
            error = ProtocolViolation(f"{len(sent)} were sent back, {len(answer)} answered")
        if answer is None or error is not None:
            self._failed(sent, error or MqError("no answer"), now_s)
            return
        kept = [messages[item.index] for item in answer if item.outcome is None]
        has = [messages[item.index] for item in answer if item.outcome is not None]
        if has:
            self._on_returned(snapshot, has)
        if kept:
            self._on_kept(snapshot, kept, Refused("the broker does not take the message back"))

    def _failed(self, sent: list[_Failed], error: MqError, now_s: float) -> None:
        snapshot = sent[0].snapshot
        if isinstance(error, LockLost):
            self._owner.lock_lost(snapshot)
        elif isinstance(error, StaleGeneration):
            self._owner.stale(snapshot)
        elif error.outcome == "unknown":
            logger.warning("%s: sending back, again later: %s", snapshot.place, error)
            self._waiting.extendleft(reversed(sent))
            self._not_before_s = now_s + self._settings.retry_delay_ms / 1000
        elif not snapshot.is_dropped:
            self._on_kept(snapshot, [item.message for item in sent], error)
