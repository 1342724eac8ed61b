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
from apps.engine import limits
from apps.engine.errors import InvalidArgument, InvalidName, UnknownTopic
from apps.engine.types import PERM_READ, PERM_WRITE, Cleanup, TopicType
from apps.topics import queuecounts, resizing, snapshot
from apps.topics.models import (
    EXPIRES_MS_MAX,
    EXPIRES_MS_MIN,
    QUEUE_COUNT_DEFAULT,
    RETENTION_MS_MAX,
    RETENTION_MS_MIN,
    MessageQueue,
    Topic,
)
from apps.topics.usage import Usage, usage_of

# Names the product gives itself: frames and journals, retry topics, dead letters.
RESERVED_PREFIXES = ("rmq_sys_", "%RETRY%", "%DLQ%")

# Topics that are looked at in one step, and so deleted in one transaction.
_EXPIRED_MAX = 500

_log = logging.getLogger("mqweb.topics")


class Unsaid(Enum):
    """The value that is not given, where None is a value."""

    UNSAID = auto()


UNSAID: Literal[Unsaid.UNSAID] = Unsaid.UNSAID
Milliseconds = int | Literal[Unsaid.UNSAID] | None
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
            f"a topic's name has 1 to {limits.NAME_CHARACTERS_MAX} characters of "
            "letters, digits, '%', '|', '_' and '-'"
        )
    if name.startswith(RESERVED_PREFIXES):
        raise InvalidName(f"names that begin with {', '.join(RESERVED_PREFIXES)} are reserved")


def create_or_change_topic(
    *,
    name: str,
    queue_count: int | None = None,
    type: TopicType | None = None,  # noqa: A002
    perm: int | None = None,
    expires_ms: Milliseconds = UNSAID,
    retention_ms: Milliseconds = UNSAID,
    cleanup: Cleanup | None = None,
    drain: bool | None = None,
    expected: Expected = UNSAID,
    by: str = UNNAMED,
) -> Changed:
    """Make a topic, or change what is given of one that exists; None leaves a value as it is.

    A new topic takes RocketMQ's defaults: 4 queues, MIXED, readable and writable; it never expires.
    For the number of queues and `drain` see `queuecounts.changed`; `resizing` does what is left.
    `expires_ms` None makes a topic that never expires; see `expire_unused_topics`. The call itself
    counts as use. `retention_ms` None keeps messages as long as the store does. `cleanup` is
    fixed when a topic is made, and COMPACT has no `retention_ms`. `expected` is when the topic was
    last changed, as the caller knows it, or None for one that must not be there yet: what was
    changed meanwhile is refused as `conflict`, with nothing changed. Raises InvalidName and
    InvalidArgument.
    """
    check_name(name)
    with recorded(by=by, act="topic.change", kind="topic", name=name) as entry:
        _check_values(queue_count, expires_ms, retention_ms)
        # The version's row lock puts all changes of the catalog in one order.
        snapshot.raise_version()
        topic = Topic.objects.filter(name=name).first()
        _check_expected(topic, expected)
        if topic is None:
            entry.act = "topic.create"
            topic = _created(name, queue_count, type, perm, expires_ms, retention_ms, cleanup)
            changed = Changed(topic=topic, is_new=True)
        else:
            entry.before = values_of(topic)
            _check_cleanup(topic.cleanup, cleanup, retention_ms)
            _change(topic, queue_count, type, perm, expires_ms, retention_ms, drain=drain)
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
    }


def _check_values(
    queue_count: int | None, expires_ms: Milliseconds, retention_ms: Milliseconds
) -> None:
    if queue_count is not None and not 1 <= queue_count <= limits.QUEUE_COUNT_MAX:
        raise InvalidArgument(f"queue_count must be from 1 to {limits.QUEUE_COUNT_MAX}")
    if isinstance(expires_ms, int) and not EXPIRES_MS_MIN <= expires_ms <= EXPIRES_MS_MAX:
        raise InvalidArgument(f"expires_ms must be from {EXPIRES_MS_MIN} to {EXPIRES_MS_MAX}")
    if isinstance(retention_ms, int) and not RETENTION_MS_MIN <= retention_ms <= RETENTION_MS_MAX:
        raise InvalidArgument(f"retention_ms must be from {RETENTION_MS_MIN} to {RETENTION_MS_MAX}")


def delete_topic(*, name: str, by: str = UNNAMED) -> None:
    """Remove a topic from the catalog; the engine keeps its messages until their segments go.

    Raises UnknownTopic.
    """
    with recorded(by=by, act="topic.delete", kind="topic", name=name) as entry:
        snapshot.raise_version()
        topic = Topic.objects.filter(name=name).first()
        if topic is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        entry.before = values_of(topic)
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
) -> Topic:
    cleanup = cleanup or Cleanup.DELETE
    _check_cleanup(cleanup.value, cleanup, retention_ms)
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
        used_at=timezone.now(),
    )
    snapshot.add_queue_rows(topic, first=0)
    return topic


def _check_expected(topic: Topic | None, expected: Expected) -> None:
    """Raise ProblemError `conflict` unless the topic is as the caller knows it."""
    if expected is UNSAID:
        return
    if expected is None and topic is not None:
        raise ProblemError("conflict", f"there is a topic {topic.name!r} already")
    if expected is not None and (topic is None or topic.updated_at != expected):
        raise ProblemError("conflict", "somebody changed the topic since you looked")


def _check_cleanup(fixed: str, said: Cleanup | None, retention_ms: Milliseconds) -> None:
    """Raise InvalidArgument for another way of cleaning than a topic has, or one with an age."""
    if said is not None and said.value != fixed:
        raise InvalidArgument(f"cleanup is fixed when a topic is made; here it is {fixed!r}")
    if fixed == Cleanup.COMPACT and isinstance(retention_ms, int):
        raise InvalidArgument("a compacted topic keeps the newest of each key: no retention_ms")


def _change(
    topic: Topic,
    queue_count: int | None,
    type_: TopicType | None,
    perm: int | None,
    expires_ms: Milliseconds,
    retention_ms: Milliseconds,
    *,
    drain: bool | None,
) -> None:
    before = (topic.type, topic.perm, topic.expires_ms, topic.retention_ms)
    topic.type = topic.type if type_ is None else type_.value
    topic.perm = topic.perm if perm is None else perm
    topic.expires_ms = topic.expires_ms if expires_ms is UNSAID else expires_ms
    topic.retention_ms = topic.retention_ms if retention_ms is UNSAID else retention_ms
    topic.used_at = timezone.now()
    counts = resizing.counts_of(topic)
    if queue_count is not None:
        counts = queuecounts.changed(counts, queue_count, drain=drain)
    is_resized = counts != resizing.counts_of(topic)
    after = (topic.type, topic.perm, topic.expires_ms, topic.retention_ms)
    if not is_resized and after == before:
        # The topic was used and not changed.
        topic.save(update_fields=["used_at"])
        return
    if is_resized:
        resizing.resize(topic, counts)
    topic.save()
    MessageQueue.objects.filter(topic=topic).update(perm=topic.perm)
