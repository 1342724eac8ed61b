"""Values of what operators do to a group's queues: care, resets, what-if. Knows no door."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from apps.engine.types import Strategy


class CareAct(StrEnum):
    """What an operator does about a queue of a group."""

    SUSPEND = "suspend"
    RESUME = "resume"
    SKIP = "skip"
    PARK = "park"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """A queue gives a group nothing: since when (wall time), by whom and why."""

    at_ms: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CareRequest:
    """One act about a queue of a group.

    `expected_offset` is that of the message at the head, the first that is not settled; a skip and
    a park need it.
    """

    act: CareAct
    group: str
    topic: str
    queue: int
    expected_offset: int | None = None
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CareResult:
    """What is the case after an act; `is_repeat` says that it was before, and nothing was done.

    `head` is the offset of the first message that is not settled now. `suspension` is in force
    after the act, None where the queue gives messages. `dead_letter_offset` is that of a message
    that was parked just now, in the group's dead letters.
    """

    act: CareAct
    group: str
    topic: str
    queue: int
    head: int
    is_repeat: bool = False
    suspension: Suspension | None = None
    dead_letter_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReset:
    """Where one queue is to go on, and between which offsets the group must be now."""

    topic: str
    queue: int
    target: int
    expected_min: int
    expected_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """Have a group go on elsewhere in some queues, all of them or none.

    `reset_id` names the request: one that is repeated is answered as the first time.
    """

    group: str
    reset_id: str
    queues: tuple[QueueReset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueWasReset:
    """Where a group was in a queue, and where it goes on."""

    topic: str
    queue: int
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetResult:
    """What became of a reset, by queue in the order asked; `is_repeat`: it was done before."""

    queues: tuple[QueueWasReset, ...]
    is_repeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRequest:
    """How a group's queues would be shared out by a strategy among so many members.

    What is None stays as it is. Fewer members are the first by client id; more get names that
    sort behind those there are and want what the first member wants.
    """

    group: str
    strategy: Strategy | None = None
    member_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A sharing out that is not in force.

    `assignment` is queue numbers by topic by client id, `before` the same of what is in force.
    `added` are client ids that no member has. `queues_moved` counts queues that would be another
    client's than now, `idle` are members that would get none.
    """

    strategy: Strategy
    assignment: Mapping[str, Mapping[str, tuple[int, ...]]]
    before: Mapping[str, Mapping[str, tuple[int, ...]]]
    added: tuple[str, ...]
    idle: tuple[str, ...]
    queues_moved: int
