"""Groups and their members, live from the engine. What the engine does not know is None."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from apps.bridge import engine as bridge
from apps.core.exceptions import ProblemError
from apps.core.phrases import sentence
from apps.engine.api import EngineControl
from apps.engine.errors import Busy
from apps.engine.grouptypes import MemberState, Rebalance, Subscription
from apps.engine.litetypes import LiteBacklog
from apps.engine.types import ClientSeen, GroupProgress, GroupSpec
from apps.groups.blocked import idle_members
from apps.groups.models import ConsumerGroup
from apps.groups.retrytopics import retry_lag


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPicture:
    """A client of a group; `state` is None for one that keeps no heartbeat and only receives."""

    client_id: str
    topics: Sequence[str]
    first_seen_ms: int
    last_seen_ms: int
    is_waiting: bool
    state: MemberState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A topic of which members of one group want different things, and what each wants."""

    topic: str
    wanted: Sequence[tuple[str, Subscription]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """What was decided about a group, its progress over queues and lite topics, and its members.

    `retry_lag` is the part of `lag` that lies in its retry topic, which is among `topics`. `lag`
    and `in_flight` are None while its lite topics are not counted yet.
    `is_decided` is False where nobody decided anything and `spec` has the defaults. `assignment` is
    None where the group has none: nobody keeps a heartbeat.
    """

    spec: GroupSpec
    is_decided: bool
    topics: Sequence[str] = ()
    queue_count: int = 0
    lag: int | None = 0
    retry_lag: int = 0
    in_flight: int | None = 0
    members: Sequence[MemberPicture] = ()
    idle_members: Sequence[str] = ()
    conflicts: Sequence[Conflict] = ()
    assignment: Rebalance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the engine answers about one group or all."""

    specs: Mapping[str, GroupSpec]
    progress: Sequence[GroupProgress] = ()
    lites: Sequence[LiteBacklog] = ()
    clients: Sequence[ClientSeen] = ()
    members: Sequence[MemberState] = ()
    assigned: Sequence[Rebalance] = ()


@dataclass(slots=True)
class _Parts:
    progress: list[GroupProgress] = field(default_factory=list)
    lites: list[LiteBacklog] = field(default_factory=list)
    clients: list[ClientSeen] = field(default_factory=list)
    members: list[MemberState] = field(default_factory=list)
    assigned: Rebalance | None = None


def group_states() -> list[GroupState]:
    """Return every group that was decided about, or that the engine has heard of, by name."""
    known = bridge.call(partial(_known, group=None))
    parts = _by_group(known)
    return [
        _state(group, known.specs.get(group), parts[group])
        for group in sorted({*parts, *known.specs})
    ]


def group_state(group: str) -> GroupState:
    """Return one group; refuse one nobody decided about or has read for as `unknown_group`."""
    known = bridge.call(partial(_known, group=group))
    parts = _by_group(known)
    if group not in parts and group not in known.specs:
        raise ProblemError(
            "unknown_group",
            sentence("no member of group %(group)s has received anything", group=repr(group)),
        )
    return _state(group, known.specs.get(group), parts[group])


def is_decided(group: str) -> bool:
    """Say whether somebody decided about a group."""
    return ConsumerGroup.objects.filter(name=group, decided_at__isnull=False).exists()


def put_state(spec: GroupSpec) -> GroupState:
    """Return a group that was just decided about; without its members while the engine is away."""
    try:
        known = bridge.call(partial(_known, group=spec.name))
    except Busy:
        known = _Known(specs={})
    return _state(spec.name, spec, _by_group(known)[spec.name])


def _known(engine: EngineControl, *, group: str | None) -> _Known:
    return _Known(
        specs=engine.catalog.groups,
        progress=engine.group_progress(group),
        lites=engine.lite_backlog(group),
        clients=engine.clients(group),
        members=engine.members(group),
        assigned=engine.rebalances(group),
    )


def _by_group(known: _Known) -> "defaultdict[str, _Parts]":
    parts: defaultdict[str, _Parts] = defaultdict(_Parts)
    for row in known.progress:
        parts[row.group].progress.append(row)
    for lites in known.lites:
        parts[lites.group].lites.append(lites)
    for client in known.clients:
        parts[client.group].clients.append(client)
    for member in known.members:
        parts[member.group].members.append(member)
    for found in known.assigned:
        parts[found.group].assigned = found
    return parts


def _state(group: str, spec: GroupSpec | None, parts: _Parts) -> GroupState:
    topics = {row.topic for row in parts.progress} | {row.topic for row in parts.lites}
    topics.update(topic for client in parts.clients for topic in client.topics)
    topics.update(wanted.topic for member in parts.members for wanted in member.subscriptions)
    return GroupState(
        spec=GroupSpec(name=group) if spec is None else spec,
        is_decided=spec is not None,
        topics=sorted(topics),
        queue_count=len(parts.progress),
        lag=_plus(
            sum(row.max_offset - row.committed for row in parts.progress),
            (row.lag for row in parts.lites),
        ),
        retry_lag=retry_lag(parts.progress),
        in_flight=_plus(
            sum(row.in_flight for row in parts.progress), (row.in_flight for row in parts.lites)
        ),
        members=_members(parts.clients, parts.members),
        idle_members=idle_members(parts.members),
        conflicts=_conflicts(parts.members),
        assignment=parts.assigned,
    )


def _plus(count: int, others: Iterable[int | None]) -> int | None:
    """Return the sum; None where a part is not known."""
    for other in others:
        if other is None:
            return None
        count += other
    return count


def _members(clients: Iterable[ClientSeen], members: Iterable[MemberState]) -> list[MemberPicture]:
    """Join who received lately with who keeps a heartbeat; most do both."""
    states = {member.client_id: member for member in members}
    pictures = {
        client.client_id: MemberPicture(
            client_id=client.client_id,
            topics=client.topics,
            first_seen_ms=client.first_seen_ms,
            last_seen_ms=client.last_seen_ms,
            is_waiting=client.is_waiting,
            state=states.get(client.client_id),
        )
        for client in clients
    }
    for state in states.values():
        pictures.setdefault(
            state.client_id,
            MemberPicture(
                client_id=state.client_id,
                topics=sorted({wanted.topic for wanted in state.subscriptions}),
                first_seen_ms=state.joined_ms,
                last_seen_ms=state.last_seen_ms,
                is_waiting=state.is_waiting,
                state=state,
            ),
        )
    return [pictures[client_id] for client_id in sorted(pictures)]


def _conflicts(members: Sequence[MemberState]) -> list[Conflict]:
    return [
        Conflict(
            topic=topic,
            wanted=[
                (member.client_id, wanted)
                for member in sorted(members, key=lambda member: member.client_id)
                for wanted in member.subscriptions
                if wanted.topic == topic
            ],
        )
        for topic in sorted({topic for member in members for topic in member.conflicts})
    ]
