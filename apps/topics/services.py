"""Changes to topics: one transaction each, and the engine is told after the commit."""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import partial
from typing import Literal

from django.db import transaction
from django.db.models import DateTimeField, ExpressionWrapper, F, QuerySet
from django.utils import timezone

from apps.audit.services import recorded
from apps.bridge import engine as bridge
from apps.clockwork.steps import Step
from apps.core.actors import CLOCKWORK, UNNAMED
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.phrases import sentence
from apps.engine import limits
from apps.engine.errors import InvalidArgument, InvalidName, UnknownTopic
from apps.engine.types import PERM_READ, PERM_WRITE, Cleanup, TopicType
from apps.topics import queuecounts, resizing, snapshot
from apps.topics.models import (
    EXPIRES_MS_MAX,
    EXPIRES_MS_MIN,
    LITE_TTL_MINUTES_MAX,
    LITE_TTL_MINUTES_MIN,
    QUEUE_COUNT_DEFAULT,
    RETENTION_MS_MAX,
    RETENTION_MS_MIN,
    MessageQueue,
    Topic,
)
from apps.topics.usage import Usage, readers_of, usage_of

# Names the product gives itself: frames and journals, retry topics, dead letters, lite topics.
RESERVED_PREFIXES = ("rmq_sys_", "%RETRY%", "%DLQ%", "%LITE%")

# Topics that are looked at in one step, and so deleted in one transaction.
_EXPIRED_MAX = 500

_READERS_NAMED = 5

_log = logging.getLogger("mqweb.topics")


class Unsaid(Enum):
    """The value that is not given, where None is a value."""

    UNSAID = auto()


UNSAID: Literal[Unsaid.UNSAID] = Unsaid.UNSAID
Milliseconds = int | Literal[Unsaid.UNSAID] | None
Minutes = int | Literal[Unsaid.UNSAID] | None
Expected = datetime | Literal[Unsaid.UNSAID] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A topic as it is after the call, and whether the call made it."""

    topic: Topic
    is_new: bool


def check_name(name: str) -> None:
    """Raise InvalidName for a name that users may not give to a topic."""
    if not limits.NAME_PATTERN.fullmatch(name):
        raise InvalidName(
            sentence(
                "a topic's name has 1 to %(name_characters_max)s characters of letters, digits, "
                "'%%', '|', '_' and '-'",
                name_characters_max=limits.NAME_CHARACTERS_MAX,
            )
        )
    if name.startswith(RESERVED_PREFIXES):
        raise InvalidName(
            sentence(
                "names that begin with %(reserved_prefixes)s are reserved",
                reserved_prefixes=", ".join(RESERVED_PREFIXES),
            )
        )


def create_or_change_topic(
    *,
    name: str,
    queue_count: int | None = None,
    type: TopicType | None = None,  # noqa: A002
    perm: int | None = None,
    expires_ms: Milliseconds = UNSAID,
    retention_ms: Milliseconds = UNSAID,
    cleanup: Cleanup | None = None,
    lite_ttl_minutes: Minutes = UNSAID,
    drain: bool | None = None,
    expected: Expected = UNSAID,
    by: str = UNNAMED,
) -> Changed:
    """Make a topic, or change what is given of one that exists; None leaves a value as it is.

    A new topic takes RocketMQ's defaults: 4 queues, MIXED, readable and writable; it never expires.
    For the number of queues and `drain` see `queuecounts.changed`; `resizing` does what is left.
    `expires_ms` None makes a topic that never expires; see `expire_unused_topics`. The call itself
    counts as use. `retention_ms` None keeps messages as long as the store does. `cleanup` is
    fixed when a topic is made, and COMPACT has no `retention_ms`. A topic is of type LITE from the
    first or never, and `lite_ttl_minutes` goes with that type. `expected` is when the topic was
    last changed, as the caller knows it, or None for one that must not be there yet: what was
    changed meanwhile is refused as `conflict`, with nothing changed. Raises InvalidName and
    InvalidArgument.
    """
    check_name(name)
    with recorded(by=by, act="topic.change", kind="topic", name=name) as entry:
        _check_values(queue_count, expires_ms, retention_ms)
        _check_lite_ttl(lite_ttl_minutes)
        # The version's row lock puts all changes of the catalog in one order.
        snapshot.raise_version()
        topic = Topic.objects.filter(name=name).first()
        _check_expected(topic, expected)
        if topic is None:
            entry.act = "topic.create"
            topic = _created(
                name, queue_count, type, perm, expires_ms, retention_ms, cleanup, lite_ttl_minutes
            )
            changed = Changed(topic=topic, is_new=True)
        else:
            entry.before = values_of(topic)
            _check_cleanup(topic.cleanup, cleanup, retention_ms)
            _check_stays_lite(topic, type)
            _check_lite(TopicType(topic.type), topic.cleanup, lite_ttl_minutes)
            _change(
                topic, queue_count, type, perm, expires_ms, retention_ms, lite_ttl_minutes,
                drain=drain,
            )  # fmt: skip
            changed = Changed(topic=topic, is_new=False)
        entry.after = values_of(topic)
        if entry.after == entry.before:
            entry.forget()
        snapshot.publish_after_commit()
    return changed


def values_of(topic: Topic) -> dict[str, object]:
    """Return what somebody decided about a topic, and how far that is carried out."""
    return {
        "type": topic.type,
        "queue_count": topic.queue_count,
        "write_queue_count": topic.write_queue_count,
        "target_queue_count": topic.target_queue_count,
        "perm": topic.perm,
        "expires_ms": topic.expires_ms,
        "retention_ms": topic.retention_ms,
        "cleanup": topic.cleanup,
        "lite_ttl_minutes": topic.lite_ttl_minutes,
    }


def _check_values(
    queue_count: int | None, expires_ms: Milliseconds, retention_ms: Milliseconds
) -> None:
    if queue_count is not None and not 1 <= queue_count <= limits.QUEUE_COUNT_MAX:
        raise InvalidArgument(
            sentence(
                "queue_count must be from 1 to %(queue_count_max)s",
                queue_count_max=limits.QUEUE_COUNT_MAX,
            )
        )
    if isinstance(expires_ms, int) and not EXPIRES_MS_MIN <= expires_ms <= EXPIRES_MS_MAX:
        raise InvalidArgument(
            sentence(
                "expires_ms must be from %(expires_ms_min)s to %(expires_ms_max)s",
                expires_ms_min=EXPIRES_MS_MIN,
                expires_ms_max=EXPIRES_MS_MAX,
            )
        )
    if isinstance(retention_ms, int) and not RETENTION_MS_MIN <= retention_ms <= RETENTION_MS_MAX:
        raise InvalidArgument(
            sentence(
                "retention_ms must be from %(retention_ms_min)s to %(retention_ms_max)s",
                retention_ms_min=RETENTION_MS_MIN,
                retention_ms_max=RETENTION_MS_MAX,
            )
        )


def delete_topic(
    *, name: str, by: str = UNNAMED, reason: str = "", even_in_use: bool = True
) -> None:
    """Remove a topic from the catalog; the engine keeps its messages until their segments go.

    Raises UnknownTopic, and unless `even_in_use` a conflict where somebody reads it, or Busy while
    the engine cannot be asked whether anybody does.
    """
    with recorded(by=by, act="topic.delete", kind="topic", name=name, reason=reason) as entry:
        readers = () if even_in_use else bridge.call(partial(readers_of, name=name))
        snapshot.raise_version()
        topic = Topic.objects.filter(name=name).first()
        if topic is None:
            raise UnknownTopic(sentence("there is no topic %(name)s", name=repr(name)))
        entry.before = values_of(topic)
        if readers:
            named = ", ".join(readers[:_READERS_NAMED])
            raise ProblemError(
                "conflict",
                sentence("topic %(name)s is in use, by %(groups)s", name=repr(name), groups=named),
            )
        topic.delete()
        snapshot.publish_after_commit()


def reconcile_catalog() -> Step:
    """Bring engine and database together, and go on with topics that change their queues.

    `done` counts a catalog that was apart, see `snapshot.keep`, and the topics that changed. Raises
    Busy while the engine cannot be asked.
    """
    was_apart = snapshot.keep()
    return Step(done=was_apart + resizing.go_on())


def expire_unused_topics(*, now_ms: int) -> Step:
    """Delete topics that nobody has used for their `expires_ms`; at most 500 in a step.

    Use is a PUT, a receive by a client that says who it is, a message handed out and not settled,
    and a message sent. When the last was sent is not known, only that some were since use was last
    looked for; so a topic goes after its time at the earliest, and after twice that at the latest.

    Raises Busy, and deletes nothing, while the engine cannot be asked.
    """
    now = moment(now_ms)
    names = list(_due(now).order_by("used_at").values_list("name", flat=True)[: _EXPIRED_MAX + 1])
    due, has_more = names[:_EXPIRED_MAX], len(names) > _EXPIRED_MAX
    if not due:
        return Step()
    usage = bridge.call(partial(usage_of, names=due))
    with transaction.atomic():
        snapshot.lock()
        # Looked for again under the lock: one that a PUT has used meanwhile is no longer due.
        topics = list(_due(now).filter(name__in=due))
        for topic in topics:
            _note_use(topic, usage[topic.name], now)
        Topic.objects.bulk_update(topics, ["used_at", "used_offset"])
        unused = list(_due(now).filter(name__in=due).values_list("name", flat=True))
        if unused:
            snapshot.raise_version()
            _expire(unused)
            snapshot.publish_after_commit()
    for name in unused:
        _log.info("topic_expired", extra={"topic": name})
    return Step(done=len(unused), more=has_more)


def _expire(names: list[str]) -> None:
    """Delete topics, and keep of each what it was."""
    for topic in Topic.objects.filter(name__in=names):
        with recorded(
            by=CLOCKWORK, act="topic.expire", kind="topic", name=topic.name, before=values_of(topic)
        ):
            topic.delete()


def _due(now: datetime) -> QuerySet[Topic]:
    """Return the topics whose last known use is as long ago as they may live without."""
    latest = ExpressionWrapper(
        now - F("expires_ms") * timedelta(milliseconds=1), output_field=DateTimeField()
    )
    return Topic.objects.filter(expires_ms__isnull=False, used_at__lte=latest)


def _note_use(topic: Topic, usage: Usage, now: datetime) -> None:
    is_sent_to = usage.offset not in (None, topic.used_offset)
    if usage.offset is not None:
        topic.used_offset = usage.offset
    if is_sent_to or usage.has_in_flight:
        topic.used_at = now
    elif usage.read_at is not None and topic.used_at is not None:
        topic.used_at = max(topic.used_at, usage.read_at)


def _created(
    name: str,
    queue_count: int | None,
    type_: TopicType | None,
    perm: int | None,
    expires_ms: Milliseconds,
    retention_ms: Milliseconds,
    cleanup: Cleanup | None,
    lite_ttl_minutes: Minutes,
) -> Topic:
    cleanup = cleanup or Cleanup.DELETE
    _check_cleanup(cleanup.value, cleanup, retention_ms)
    _check_lite(type_ or TopicType.MIXED, cleanup.value, lite_ttl_minutes)
    queue_count = QUEUE_COUNT_DEFAULT if queue_count is None else queue_count
    topic = Topic.objects.create(
        name=name,
        queue_count=queue_count,
        write_queue_count=queue_count,
        target_queue_count=queue_count,
        type=(type_ or TopicType.MIXED).value,
        perm=PERM_READ | PERM_WRITE if perm is None else perm,
        expires_ms=None if expires_ms is UNSAID else expires_ms,
        retention_ms=None if retention_ms is UNSAID else retention_ms,
        cleanup=cleanup.value,
        lite_ttl_minutes=None if lite_ttl_minutes is UNSAID else lite_ttl_minutes,
        used_at=timezone.now(),
    )
    snapshot.add_queue_rows(topic, first=0)
    return topic


def _check_expected(topic: Topic | None, expected: Expected) -> None:
    """Raise ProblemError `conflict` unless the topic is as the caller knows it."""
    if expected is UNSAID:
        return
    if expected is None and topic is not None:
        raise ProblemError(
            "conflict", sentence("there is a topic %(name)s already", name=repr(topic.name))
        )
    if expected is not None and (topic is None or topic.updated_at != expected):
        raise ProblemError("conflict", sentence("somebody changed the topic since you looked"))


def _check_cleanup(fixed: str, said: Cleanup | None, retention_ms: Milliseconds) -> None:
    """Raise InvalidArgument for another way of cleaning than a topic has, or one with an age."""
    if said is not None and said.value != fixed:
        raise InvalidArgument(
            sentence(
                "cleanup is fixed when a topic is made; here it is %(fixed)s", fixed=repr(fixed)
            )
        )
    if fixed == Cleanup.COMPACT and isinstance(retention_ms, int):
        raise InvalidArgument(
            sentence("a compacted topic keeps the newest of each key: no retention_ms")
        )


def _check_lite_ttl(minutes: Minutes) -> None:
    if isinstance(minutes, int) and not LITE_TTL_MINUTES_MIN <= minutes <= LITE_TTL_MINUTES_MAX:
        raise InvalidArgument(
            sentence(
                "lite_ttl_minutes must be from %(lite_ttl_minutes_min)s to "
                "%(lite_ttl_minutes_max)s",
                lite_ttl_minutes_min=LITE_TTL_MINUTES_MIN,
                lite_ttl_minutes_max=LITE_TTL_MINUTES_MAX,
            )
        )


def _check_stays_lite(topic: Topic, said: TopicType | None) -> None:
    """Raise InvalidArgument where a topic would begin to have lite topics, or have none any more.

    What lies in its queues, or in its lite topics, could not be read.
    """
    if said is not None and (said is TopicType.LITE) != (topic.type == TopicType.LITE.value):
        raise InvalidArgument(
            sentence("a topic is of type LITE from the first or never: make another one")
        )


def _check_lite(type_: TopicType, cleanup: str, lite_ttl_minutes: Minutes) -> None:
    """Raise InvalidArgument for what does not go together with lite topics, or without them."""
    if type_ is TopicType.LITE and cleanup == Cleanup.COMPACT:
        raise InvalidArgument(sentence("a topic of type LITE cannot be compacted"))
    if type_ is not TopicType.LITE and isinstance(lite_ttl_minutes, int):
        raise InvalidArgument(sentence("lite_ttl_minutes goes with the type LITE"))


def _change(
    topic: Topic,
    queue_count: int | None,
    type_: TopicType | None,
    perm: int | None,
    expires_ms: Milliseconds,
    retention_ms: Milliseconds,
    lite_ttl_minutes: Minutes,
    *,
    drain: bool | None,
) -> None:
    before = _decided_in(topic)
    topic.type = topic.type if type_ is None else type_.value
    topic.perm = topic.perm if perm is None else perm
    topic.expires_ms = topic.expires_ms if expires_ms is UNSAID else expires_ms
    topic.retention_ms = topic.retention_ms if retention_ms is UNSAID else retention_ms
    if lite_ttl_minutes is not UNSAID:
        topic.lite_ttl_minutes = lite_ttl_minutes
    topic.used_at = timezone.now()
    counts = resizing.counts_of(topic)
    if queue_count is not None:
        counts = queuecounts.changed(counts, queue_count, drain=drain)
    is_resized = counts != resizing.counts_of(topic)
    if not is_resized and _decided_in(topic) == before:
        # The topic was used and not changed.
        topic.save(update_fields=["used_at"])
        return
    if is_resized:
        resizing.resize(topic, counts)
    topic.save()
    MessageQueue.objects.filter(topic=topic).update(perm=topic.perm)


def _decided_in(topic: Topic) -> tuple[object, ...]:
    return (
        topic.type,
        topic.perm,
        topic.expires_ms,
        topic.retention_ms,
        topic.lite_ttl_minutes,
    )
