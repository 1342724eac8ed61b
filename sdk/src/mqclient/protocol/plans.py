"""Work of several requests, described as a generator of steps. Knows no sockets and no loops.

A plan yields a call and is sent its answer (or thrown its error), or yields a pause. The same plan
runs in a thread and on an event loop.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from mqclient.clock import Clock
from mqclient.errors import MqError
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Call, Calls
from mqclient.values import DeadLetter, LiteTopic, QueueOffset, TopicInfo

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """Carry out a call within a time."""

    call: Call[object]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for a while."""

    seconds: float


# What is sent in is the answer to the call just yielded, whose type the plan knows.
Plan = Generator[Step | Pause, Any, T]


@dataclass(slots=True, kw_only=True)
class Patience:
    """For how long, and how, a call is tried again."""

    clock: Clock
    backoff: Backoff
    timeout_s: float


def persistently(call: Call[T], patience: Patience) -> Plan[T]:
    """Try until the call succeeds, cannot succeed, or the time is over; raise the last error.

    A call that must not be carried out twice is only repeated while nothing has happened.
    """
    hold_s = call.wait_ms / 1000
    deadline_s = patience.clock.steady_s() + patience.timeout_s + hold_s
    attempt = 0
    while True:
        attempt += 1
        left_s = deadline_s - patience.clock.steady_s()
        try:
            answer: T = yield Step(call, max(left_s, 0.001))
        except MqError as error:
            is_safe = call.is_repeatable or error.outcome == "failed"
            pause_s = patience.backoff.pause_s(attempt, error)
            left_s = deadline_s - patience.clock.steady_s()
            if not (error.retriable and is_safe) or pause_s >= left_s:
                raise
            yield Pause(pause_s)
        else:
            return answer


def _every(
    page_of: Callable[[str | None], Call[tuple[list[T], str | None]]], patience: Patience
) -> Plan[list[T]]:
    """Read page after page; `page_of` is given the cursor, None for the first."""
    items: list[T] = []
    cursor: str | None = None
    while True:
        page, cursor = yield from persistently(page_of(cursor), patience)
        items += page
        if not cursor:
            return items


def all_topics(calls: Calls, patience: Patience) -> Plan[list[TopicInfo]]:
    """List every topic, page after page."""
    return _every(calls.list_topics, patience)


def all_lite_topics(calls: Calls, topic: str, patience: Patience) -> Plan[list[LiteTopic]]:
    """List the lite topics of a parent by name, page after page."""
    return _every(partial(calls.lite_topics, topic), patience)


def all_groups(calls: Calls, patience: Patience) -> Plan[list[str]]:
    """List every group's name, page after page."""
    return _every(calls.list_groups, patience)


def all_dead_letters(calls: Calls, group: str, patience: Patience) -> Plan[list[DeadLetter]]:
    """Read a group's dead letters, page after page."""
    return _every(partial(calls.dead_letters, group), patience)


def all_group_offsets(calls: Calls, group: str, patience: Patience) -> Plan[list[QueueOffset]]:
    """Read a group's progress in every queue, page after page."""
    return _every(partial(calls.group_offsets, group), patience)
