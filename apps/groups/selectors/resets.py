"""What a reset of offsets would do, live from the engine; and what resets did, from rows."""

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from apps.bridge import engine as bridge
from apps.core.exceptions import ProblemError
from apps.core.phrases import sentence
from apps.engine.api import EngineControl
from apps.engine.codec.layout import RETRY_PREFIX
from apps.engine.errors import InvalidArgument, UnknownTopic
from apps.engine.grouptypes import QueuePlace
from apps.engine.limits import PLACES_MAX
from apps.engine.types import QueueRange
from apps.groups import decisions, tokens
from apps.groups.models import OffsetReset
from apps.groups.targets import PlannedQueue, Standing, Target, TargetKind, planned
from apps.groups.tokens import Promise

# How far each queue of a group that is being read may have moved on since a preview: a group of
# ten thousand messages a second and queue has a second, any other one the time to look at it.
MOVED_MAX_ONLINE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a reset would do to each queue, and the token that asks for just that.

    Queues stay as they are where target and current are the same. `retry_lag` messages wait in the
    group's retry topic, which a reset leaves alone unless that topic is named.
    """

    group: str
    target: str
    queues: Sequence[PlannedQueue]
    is_online: bool
    moved_max: int
    retry_lag: int
    token: str

    @property
    def replay(self) -> int:
        """Return how many messages come again, in all queues."""
        return sum(one.replay for one in self.queues)

    @property
    def skip(self) -> int:
        """Return how many messages are passed over, in all queues."""
        return sum(one.skip for one in self.queues)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    standings: Sequence[Standing]
    retry_lag: int
    is_online: bool


def preview(
    *,
    group: str,
    target: Target,
    topic: str | None = None,
    queues: Collection[int] | None = None,
    moved_max: int | None = None,
) -> Preview:
    """Return what a reset of a group would do to all its queues, or to those that are named.

    `moved_max` is how many messages the group may have got on in each queue when it is applied;
    None is 0 while nobody reads for the group, 10,000 otherwise. Refuses a group that reads
    nothing as `unknown_group`; raises InvalidName, InvalidArgument, UnknownTopic or UnknownQueue,
    and Busy while the engine cannot be asked.
    """
    decisions.check_name(group)
    if queues is not None and topic is None:
        raise InvalidArgument(sentence("queues are those of a topic, which is not named"))
    if moved_max is not None and moved_max < 0:
        raise InvalidArgument(sentence("moved_max must be at least 0"))
    known = bridge.call(partial(_known, group=group, topic=topic))
    chosen = [one for one in known.standings if queues is None or one.queue in queues]
    if not chosen:
        raise ProblemError(
            "unknown_group", sentence("group %(group)s has read nothing of that", group=repr(group))
        )
    if len(chosen) > PLACES_MAX:
        raise InvalidArgument(
            sentence("%(chosen)s queues are too many at once: name a topic", chosen=len(chosen))
        )
    found = _looked_up(target, chosen)
    plans = [plan for one in chosen if (plan := planned(one, target, found)) is not None]
    if not plans:
        raise InvalidArgument(sentence("the target says nothing about any queue of the group"))
    if moved_max is None:
        moved_max = MOVED_MAX_ONLINE if known.is_online else 0
    promise = Promise(
        group=group,
        reset_id=secrets.token_hex(16),
        target=target.text(),
        moved_max=moved_max,
        queues=plans,
    )
    return Preview(
        group=group,
        target=promise.target,
        queues=plans,
        is_online=known.is_online,
        moved_max=moved_max,
        retry_lag=0 if topic == RETRY_PREFIX + group else known.retry_lag,
        token=tokens.written(promise),
    )


def resets(group: str, *, before: int | None, lines_max: int) -> list[OffsetReset]:
    """Return a group's resets whose rows come before `before`, newest first."""
    rows = OffsetReset.objects.filter(group=group).select_related("undone_by", "undoes")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return list(rows.order_by("-pk")[:lines_max])


def _known(engine: EngineControl, *, group: str, topic: str | None) -> _Known:
    rows = engine.backlog(group)
    retries = RETRY_PREFIX + group
    at = {(row.topic, row.queue): row.committed for row in rows}
    topics = {row.topic for row in rows if row.topic != retries} if topic is None else {topic}
    ranges = _ranges(engine, topics, retries)
    if topic is not None and topic not in ranges:
        raise UnknownTopic(topic)
    return _Known(
        standings=[
            Standing(
                topic=name,
                queue=found.queue,
                current=at.get((name, found.queue), found.min_offset),
                min_offset=found.min_offset,
                max_offset=found.max_offset,
            )
            for name in sorted(ranges)
            for found in ranges[name]
        ],
        retry_lag=sum(row.max_offset - row.committed for row in rows if row.topic == retries),
        is_online=bool(engine.members(group) or engine.clients(group)),
    )


def _ranges(
    engine: EngineControl, topics: Collection[str], retries: str
) -> Mapping[str, Sequence[QueueRange]]:
    own = engine.own_ranges(retries) if retries in topics else {}
    ordinary = [name for name in topics if name != retries]
    return {
        **engine.topic_ranges(ordinary),
        **{name: found for name, found in own.items() if name == retries},
    }


def _looked_up(target: Target, standings: Sequence[Standing]) -> Mapping[tuple[str, int], int]:
    """Return the offsets that a time has, or that another group is at."""
    if target.kind is TargetKind.TIME:
        places = [QueuePlace(topic=one.topic, queue=one.queue) for one in standings]
        time_ms = target.time_ms or 0
        offsets = bridge.call(lambda engine: engine.offsets_at(places, time_ms))
        return {(one.topic, one.queue): at for one, at in zip(places, offsets, strict=True)}
    if target.kind is TargetKind.COPY_FROM:
        other = target.copy_from or ""
        rows = bridge.call(lambda engine: engine.group_progress(other))
        if not rows:
            raise InvalidArgument(
                sentence("group %(other)s has read nothing that could be copied", other=repr(other))
            )
        return {(row.topic, row.queue): row.committed for row in rows}
    return {}
