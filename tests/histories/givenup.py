"""Messages that were given up where they were: another try of them is another place's."""

from tests.histories.events import Event, Verb
from tests.histories.history import History


def dead(history: History) -> list[Event]:
    """Return when messages were given up, by time.

    Of one that nobody answered for the stopped store says whether it was: it has the copy.
    """
    copies = {
        tuple(copy)
        for operation in history.of(Verb.INSPECT)
        if operation.is_ok
        for copy in operation.told.get("sent_back", ())
    }
    unknown = [
        event
        for event in history.noticed(Verb.DEAD_UNKNOWN)
        if tuple(event.values[name] for name in ("group", "topic", "queue", "offset")) in copies
    ]
    return sorted([*history.noticed(Verb.DEAD), *unknown], key=lambda event: event.at_ns)
