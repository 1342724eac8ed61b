"""Changes to topics: one transaction each, and the engine is told after the commit."""

from dataclasses import dataclass

from django.db import transaction

from apps.engine import limits
from apps.engine.errors import InvalidArgument, InvalidName, UnknownTopic
from apps.engine.types import PERM_READ, PERM_WRITE, TopicType
from apps.topics import snapshot
from apps.topics.models import QUEUE_COUNT_DEFAULT, MessageQueue, Topic

# Names the product gives itself: frames and journals, retry topics, dead letters.
RESERVED_PREFIXES = ("rmq_sys_", "%RETRY%", "%DLQ%")


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
) -> Changed:
    """Make a topic, or change what is given of one that exists; None leaves a value as it is.

    A new topic takes RocketMQ's defaults: 4 queues, MIXED, readable and writable. The number of
    queues only grows. Raises InvalidName and InvalidArgument.
    """
    check_name(name)
    if queue_count is not None and not 1 <= queue_count <= limits.QUEUE_COUNT_MAX:
        raise InvalidArgument(f"queue_count must be from 1 to {limits.QUEUE_COUNT_MAX}")
    with transaction.atomic():
        # The version's row lock puts all changes of the catalog in one order.
        snapshot.raise_version()
        topic = Topic.objects.filter(name=name).first()
        if topic is None:
            changed = Changed(topic=_created(name, queue_count, type, perm), is_new=True)
        else:
            _change(topic, queue_count, type, perm)
            changed = Changed(topic=topic, is_new=False)
        snapshot.publish_after_commit()
    return changed


def delete_topic(*, name: str) -> None:
    """Remove a topic from the catalog; the engine keeps its messages until their segments go.

    Raises UnknownTopic.
    """
    with transaction.atomic():
        snapshot.raise_version()
        deleted_count, _ = Topic.objects.filter(name=name).delete()
        if not deleted_count:
            raise UnknownTopic(f"there is no topic {name!r}")
        snapshot.publish_after_commit()


def _created(
    name: str, queue_count: int | None, type_: TopicType | None, perm: int | None
) -> Topic:
    topic = Topic.objects.create(
        name=name,
        queue_count=QUEUE_COUNT_DEFAULT if queue_count is None else queue_count,
        type=(type_ or TopicType.MIXED).value,
        perm=PERM_READ | PERM_WRITE if perm is None else perm,
    )
    snapshot.add_queue_rows(topic, first=0)
    return topic


def _change(
    topic: Topic, queue_count: int | None, type_: TopicType | None, perm: int | None
) -> None:
    before = (topic.queue_count, topic.type, topic.perm)
    if queue_count is not None and queue_count < topic.queue_count:
        raise InvalidArgument(
            f"topic {topic.name!r} has {topic.queue_count} queues and the number can only "
            f"grow; {queue_count} would leave messages in queues that nobody reads"
        )
    topic.queue_count = topic.queue_count if queue_count is None else queue_count
    topic.type = topic.type if type_ is None else type_.value
    topic.perm = topic.perm if perm is None else perm
    if (topic.queue_count, topic.type, topic.perm) == before:
        return
    topic.save()
    MessageQueue.objects.filter(topic=topic).update(perm=topic.perm)
    snapshot.add_queue_rows(topic, first=before[0])
