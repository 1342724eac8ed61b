"""Write down a change of consumer state, then carry it out. Knows the journal and the state."""

from collections.abc import Callable, Sequence

from apps.engine.broker.journal import Event, encode_event
from apps.engine.broker.produce import Appender, CheckedBatch, internal_batch
from apps.engine.broker.state import ConsumerState
from apps.engine.clock import Clock
from apps.engine.codec.layout import JOURNAL_TOPIC
from apps.engine.codec.record import encode_record
from apps.engine.errors import WriteFailed
from apps.engine.failpoints import Failpoints
from apps.engine.types import Appended

_TOPIC = JOURNAL_TOPIC.encode()

# A frame costs as much as a dozen events; with so many of these it hardly shows.
EVENTS_OF_FRAME_MAX = 256


class Recorder:
    """The one way consumer state changes while the engine runs."""

    def __init__(
        self, appender: Appender, state: ConsumerState, *, clock: Clock, failpoints: Failpoints
    ) -> None:
        """Bind to a store."""
        self._appender = appender
        self._state = state
        self._clock = clock
        self._failpoints = failpoints
        self._listeners: list[Callable[[Event], None]] = []
        self._stored_listeners: list[Callable[[Sequence[Appended]], None]] = []
        self.log_end = 0

    @property
    def written_offset(self) -> int:
        """Return where the log ends, written and perhaps not synced."""
        return self._appender.written_offset

    def on_event(self, listener: Callable[[Event], None]) -> None:
        """Call back after every event; the callee must not record any itself."""
        self._listeners.append(listener)

    def on_stored(self, listener: Callable[[Sequence[Appended]], None]) -> None:
        """Call back with where messages went that were written together with events."""
        self._stored_listeners.append(listener)

    def record(self, event: Event) -> int:
        """Append the event to the log, apply it and return its number in the journal.

        The event is durable when the log is synced past `log_end`. Raises StoreFull or
        WriteFailed, and then nothing has changed.
        """
        (number,), _ = self.commit([event])
        return number

    def record_all(self, events: Sequence[Event]) -> list[int]:
        """Append events that belong to different leases, in as few frames as may be; see `record`.

        A crash, or what is raised, leaves the first so many of them.
        """
        numbers: list[int] = []
        for first in range(0, len(events), EVENTS_OF_FRAME_MAX):
            numbers += self.commit(events[first : first + EVENTS_OF_FRAME_MAX])[0]
        return numbers

    def commit(
        self,
        events: Sequence[Event],
        batches: Sequence[CheckedBatch] = (),
        *,
        is_internal: bool = True,
    ) -> tuple[list[int], list[Appended]]:
        """Append messages and the events about them in one frame, then apply the events.

        Returns the events' numbers in the journal, and where the batches went. A crash leaves all
        of it or nothing. `is_internal` is that of the appender: such a frame may use the room kept
        free for acknowledgements. Raises StoreFull or WriteFailed, and then nothing has changed.
        """
        at_ms = self._clock.wall_ms()
        journal = internal_batch(
            JOURNAL_TOPIC,
            *(
                encode_record(topic=_TOPIC, queue=0, body=encode_event(event), born_time_ms=at_ms)
                for event in events
            ),
        )
        self._failpoints.hit("journal.before_append")
        (*stored, appended), self.log_end = self._appender.write(
            [*batches, journal], is_internal=is_internal
        )
        self._failpoints.hit("journal.after_append")
        numbers = list(range(appended.queue_offset, appended.queue_offset + appended.count))
        try:
            for number, event in zip(numbers, events, strict=True):
                self._state.apply(event, number=number, at_ms=at_ms)
        except MemoryError as error:
            raise WriteFailed("no memory was left to apply what is in the log") from error
        for event in events:
            for listener in self._listeners:
                listener(event)
        for stored_listener in self._stored_listeners if batches else ():
            stored_listener(stored)
        return numbers, stored
