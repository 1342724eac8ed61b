"""Write down a change of consumer state, then carry it out. Knows the journal and the state."""

from collections.abc import Callable

from apps.engine.broker.journal import Event, encode_event
from apps.engine.broker.produce import Appender, internal_batch
from apps.engine.broker.state import ConsumerState
from apps.engine.clock import Clock
from apps.engine.codec.layout import JOURNAL_TOPIC
from apps.engine.codec.record import encode_record
from apps.engine.failpoints import Failpoints

_TOPIC = JOURNAL_TOPIC.encode()


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
        self.log_end = 0

    def on_event(self, listener: Callable[[Event], None]) -> None:
        """Call back after every event; the callee must not record any itself."""
        self._listeners.append(listener)

    def record(self, event: Event) -> int:
        """Append the event to the log, apply it and return its number in the journal.

        The event is durable when the log is synced past `log_end`. Raises StoreFull or
        WriteFailed, and then nothing has changed.
        """
        at_ms = self._clock.wall_ms()
        record = encode_record(topic=_TOPIC, queue=0, body=encode_event(event), born_time_ms=at_ms)
        self._failpoints.hit("journal.before_append")
        batch = internal_batch(JOURNAL_TOPIC, record)
        (appended,), self.log_end = self._appender.write([batch], is_internal=True)
        self._failpoints.hit("journal.after_append")
        self._state.apply(event, number=appended.queue_offset, at_ms=at_ms)
        for listener in self._listeners:
            listener(event)
        return appended.queue_offset
