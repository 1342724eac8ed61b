"""Assignments in force, as the journal has them. Knows events and their content; computes nothing.

The content of an `Assigned` event is docs/FORMAT.md 5: who the members were and what each wanted
and got, so that a restart knows the members again and changes nothing by itself.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.engine.broker.journal import Assigned
from apps.engine.broker.members import Member
from apps.engine.errors import StoreDamaged
from apps.engine.grouptypes import Rebalance, Subscription
from apps.engine.limits import QUEUE_COUNT_MAX
from apps.engine.types import FilterType, MessageModel, Strategy

Queues = Mapping[str, tuple[int, ...]]
"""Queue numbers, ascending, by topic."""

NOBODY = ""
"""The owner of a queue that is shared out and was given to no member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Who has which queues of a group. `at_ms` is wall time, `number` that of the record.

    `queues` has every member, also one without any. `owners` says whose each queue of a topic is;
    only topics that members share are in it.
    """

    event: Assigned
    number: int
    at_ms: int
    strategy: Strategy
    members: tuple[Member, ...]
    queues: Mapping[str, Queues]
    owners: Mapping[str, tuple[str, ...]]
    queues_moved: int

    def line(self) -> Rebalance:
        """Return it as a line of history."""
        return Rebalance(
            number=self.number,
            at_ms=self.at_ms,
            group=self.event.group,
            generation=self.event.generation,
            reason=self.event.reason,
            strategy=self.strategy,
            assignment=self.queues,
            queues_moved=self.queues_moved,
        )


class AssignmentTable:
    """The assignment in force by group; a group without members has none."""

    def __init__(self) -> None:
        """Start with no assignments."""
        self._assignments: dict[str, Assignment] = {}

    def apply(self, event: Assigned, *, number: int, at_ms: int) -> Assignment:
        """Put an assignment in force and return it. Raises StoreDamaged for a bad content."""
        assignment = decode(event, number=number, at_ms=at_ms)
        if assignment.members:
            self._assignments[event.group] = assignment
        else:
            self._assignments.pop(event.group, None)
        return assignment

    def get(self, group: str) -> Assignment | None:
        """Return the assignment of a group; None where it has none."""
        return self._assignments.get(group)

    def all(self) -> list[Assignment]:
        """Return every assignment, by group."""
        return [self._assignments[group] for group in sorted(self._assignments)]

    def dump(self) -> list[list[object]]:
        """Return everything as plain values, for the checkpoint."""
        return [
            [event.group, event.generation, event.reason, event.strategy, event.content,
             assignment.number, assignment.at_ms]
            for assignment in self._assignments.values()
            for event in [assignment.event]
        ]  # fmt: skip

    def load(self, rows: Iterable[list[Any]]) -> None:
        """Take up what `dump` gave. Raises TypeError, ValueError or StoreDamaged."""
        for group, generation, reason, strategy, content, number, at_ms in rows:
            event = Assigned(
                group=group,
                generation=generation,
                reason=reason,
                strategy=strategy,
                content=content,
            )
            self.apply(event, number=number, at_ms=at_ms)


def encode(
    members: Iterable[Member],
    queues: Mapping[str, Queues],
    *,
    shared: Mapping[str, int],
    queues_moved: int,
) -> str:
    """Return the content of an event. `shared` has the queue count of each topic that is shared."""
    rows = [
        [
            member.client_id,
            member.joined_ms,
            member.model,
            member.ordered,
            member.strategy,
            member.site,
            [[wanted.topic, wanted.filter, wanted.filter_type] for wanted in member.subscriptions],
            {topic: _runs(numbers) for topic, numbers in queues[member.client_id].items()},
        ]
        for member in members
    ]
    content = {"members": rows, "topics": shared, "moved": queues_moved}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def decode(event: Assigned, *, number: int, at_ms: int) -> Assignment:
    """Return the assignment an event speaks of. Raises StoreDamaged for a bad content."""
    try:
        content = json.loads(event.content)
        shared = {str(topic): _count(count) for topic, count in content["topics"].items()}
        members, queues = [], {}
        for *about, runs_by_topic in content["members"]:
            member = _member(event, *about)
            members.append(member)
            queues[member.client_id] = {
                str(topic): _numbers(runs) for topic, runs in runs_by_topic.items()
            }
        return Assignment(
            event=event,
            number=number,
            at_ms=at_ms,
            strategy=Strategy(event.strategy),
            members=tuple(members),
            queues=queues,
            owners=owners_of(members, queues, shared),
            queues_moved=int(content["moved"]),
        )
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise StoreDamaged("the assignment of a group cannot be read") from error


def owners_of(
    members: Iterable[Member], queues: Mapping[str, Queues], shared: Mapping[str, int]
) -> dict[str, tuple[str, ...]]:
    """Return whose each queue of the shared topics is."""
    owners = {topic: [NOBODY] * count for topic, count in shared.items()}
    for member in members:
        if member.model is MessageModel.BROADCASTING:
            continue
        for topic, numbers in queues[member.client_id].items():
            for number in numbers:
                owners[topic][number] = member.client_id
    return {topic: tuple(names) for topic, names in owners.items()}


def _member(
    event: Assigned,
    client_id: str,
    joined_ms: int,
    model: str,
    ordered: bool,
    strategy: str | None,
    site: str,
    subscriptions: list[list[str]],
) -> Member:
    return Member(
        group=event.group,
        client_id=client_id,
        joined_ms=int(joined_ms),
        model=MessageModel(model),
        ordered=bool(ordered),
        strategy=None if strategy is None else Strategy(strategy),
        site=site,
        subscriptions=tuple(
            Subscription(topic=topic, filter=text, filter_type=FilterType(kind))
            for topic, text, kind in subscriptions
        ),
        generation=event.generation,
    )


def _runs(numbers: tuple[int, ...]) -> list[list[int]]:
    """Return ascending numbers as runs, ends included."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def _numbers(runs: list[list[int]]) -> tuple[int, ...]:
    return tuple(
        number for first, last in runs for number in range(_count(first), _count(last) + 1)
    )


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= QUEUE_COUNT_MAX:
        raise ValueError(f"{value!r} is not a count of queues")
    return value
