"""A history as checkers read it: operations and notices in order of time.

Knows how events pair up and how a file may end; judges nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests.histories.events import Event, Kind, MalformedEvent, Verb, of_line

Built = TypeVar("Built")

NEVER_NS = 1 << 62
"""When an operation ends that has no completion."""
SECOND_NS = 1_000_000_000


class Operation(NamedTuple):
    """An invocation with its completion. `kind` is INFO where there is no completion.

    `wall_ns` is what the wall clock said at its start.
    """

    process: str
    number: int
    verb: Verb
    kind: Kind
    start_ns: int
    end_ns: int
    asked: Mapping[str, Any]
    told: Mapping[str, Any]
    wall_ns: int = 0

    @property
    def is_ok(self) -> bool:
        """Say whether the other side did it."""
        return self.kind is Kind.OK

    @property
    def key(self) -> tuple[str, int]:
        """Return what names it: its values make it useless as a key itself."""
        return self.process, self.number

    def __str__(self) -> str:
        """Return where a person finds it in the files."""
        end = "open" if self.end_ns == NEVER_NS else f"{self.end_ns / SECOND_NS:.6f}"
        who = self.asked.get("client") or self.process
        return (
            f"{self.verb} #{self.number} of {self.process} ({who}) "
            f"{self.start_ns / SECOND_NS:.6f}..{end} {self.kind}"
        )


# Compared and hashed by identity: two histories with the same events are two runs.
@dataclass(frozen=True, eq=False)
class History:
    """Operations by their start and notices by their time. `torn_lines` ended a killed client."""

    operations: list[Operation]
    notices: list[Event]
    torn_lines: int = 0
    _built: dict[object, Any] = field(default_factory=dict)

    def once(self, build: "Callable[[History], Built]") -> "Built":
        """Return what a function makes of this history; it is called once, for all checkers."""
        if build not in self._built:
            self._built[build] = build(self)
        found: Built = self._built[build]
        return found

    @cached_property
    def by_verb(self) -> Mapping[Verb, list[Operation]]:
        """Return the operations of each verb, by start."""
        found: defaultdict[Verb, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            found[operation.verb].append(operation)
        return found

    def of(self, verb: Verb) -> list[Operation]:
        """Return the operations of a verb, by start."""
        return self.by_verb.get(verb, [])

    def noticed(self, verb: Verb) -> list[Event]:
        """Return the notices of a verb, by time."""
        return [event for event in self.notices if event.verb is verb]

    @cached_property
    def end_ns(self) -> int:
        """Return when the last event happened, 0 in an empty history."""
        ends = (o.start_ns if o.end_ns == NEVER_NS else o.end_ns for o in self.operations)
        return max(max(ends, default=0), max((n.at_ns for n in self.notices), default=0))

    @cached_property
    def ended_ns(self) -> Mapping[str, int]:
        """Return when each process that ended did so."""
        ended = (n for n in self.noticed(Verb.PROCESS) if n.values["state"] == "ended")
        return {notice.values["target"]: notice.at_ns for notice in ended}

    def end_of(self, operation: Operation) -> int:
        """Return when an operation was over at the latest: with its process if not before."""
        return min(operation.end_ns, self.ended_ns.get(operation.process, NEVER_NS))


def of_events(events: Iterable[Event], *, torn_lines: int = 0) -> History:
    """Pair events up. Raises MalformedEvent for a completion of nothing, or a number used twice."""
    open_operations: dict[tuple[str, int], Event] = {}
    closed: set[tuple[str, int]] = set()
    operations: list[Operation] = []
    notices: list[Event] = []
    for event in events:
        key = (event.process, event.number)
        if event.kind is Kind.INVOKE:
            if key in open_operations or key in closed:
                raise MalformedEvent(f"two operations with one number: {event}")
            open_operations[key] = event
        elif (invoked := open_operations.pop(key, None)) is not None:
            closed.add(key)
            operations.append(_operation(invoked, event))
        elif event.kind is Kind.INFO and key not in closed:
            closed.add(key)
            notices.append(event)
        else:
            raise MalformedEvent(f"a completion of nothing: {event}")
    operations += [_operation(invoked, None) for invoked in open_operations.values()]
    operations.sort(key=lambda operation: operation.start_ns)
    notices.sort(key=lambda event: event.at_ns)
    return History(operations, notices, torn_lines)


def _operation(invoked: Event, completed: Event | None) -> Operation:
    if completed is not None and completed.verb is not invoked.verb:
        raise MalformedEvent(f"{completed} completes another verb")
    return Operation(
        process=invoked.process,
        number=invoked.number,
        verb=invoked.verb,
        kind=Kind.INFO if completed is None else completed.kind,
        start_ns=invoked.at_ns,
        end_ns=NEVER_NS if completed is None else completed.at_ns,
        asked=invoked.values,
        told={} if completed is None else completed.values,
        wall_ns=invoked.wall_ns,
    )


def read(directory: Path) -> History:
    """Read all `*.jsonl` of a directory as one history.

    The last line of a file may be torn, and is then left out and counted. Raises MalformedEvent for
    any other line that is not an event.
    """
    events: list[Event] = []
    torn_lines = 0
    for path in sorted(directory.glob("*.jsonl")):
        *lines, last = path.read_bytes().split(b"\n")
        events += [of_line(line) for line in lines]
        # A line ends with its newline: without one its end is missing, whatever it looks like.
        torn_lines += last != b""
    return of_events(events, torn_lines=torn_lines)
