"""The life of a message, gathered: from the log, the traces, the locks' history and dead letters.

Every step is a look-up by an index or a bounded read: nothing walks through the log.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta

from apps.bridge import engine as bridge
from apps.core.moments import moment, ms_of
from apps.deadletters.models import DeadLetter
from apps.engine.codec.layout import DEAD_LETTER_PREFIX, RETRY_PREFIX, TRACE_TOPIC
from apps.engine.errors import InvalidArgument, UnknownTopic
from apps.engine.types import GroupProgress
from apps.groups.models import LockTransition
from apps.messages import life
from apps.messages.asked import Asked, Meaning
from apps.messages.grouping import Family, families
from apps.messages.life import Event, Gap, Kind, Life, Lock, Source
from apps.messages.seen import Role, Seen
from apps.messages.selectors.finding import Found, Wanted, find
from apps.messages.selectors.waiting import kept_back_of
from apps.messages.telling import Told, told_of
from apps.transactions.models import TransactionDecision

_COPIES_MAX = 200
_TRACES_MAX = 256
_LETTERS_MAX = 100
_LOCKS_MAX = 200
_DECISIONS_MAX = 100
_TOPICS_ELSEWHERE_MAX = 5
# Changes of the lock before the message was stored say who had it then.
_BEFORE = timedelta(minutes=10)
_AFTER = timedelta(hours=1)


def life_of(message_id: str, *, topic: str = "") -> Life:
    """Return what is known of a message's life; of the first one where several have the id.

    With a topic only that, and what came of it, is looked at. Raises Busy while the engine of this
    process cannot be asked, InvalidArgument for what can be no id, and UnknownTopic.
    """
    asked = Asked(meaning=Meaning.ID, text=message_id)
    found = find(Wanted(asked=asked, topic=topic, messages_max=_COPIES_MAX))
    named = _families(found.messages)
    family = _followed(named, topic)
    head = None if family is None else family.head
    copies = () if family is None else family.copies
    gaps = _gaps_of(named, family, found)
    if head is not None and not head.properties.get("UNIQ_KEY"):
        gaps.add(Gap.NO_ID)
    traces = _traces(message_id)
    told = [
        one
        for one in told_of(message_id, traces.messages)
        if head is None or one.topic in (head.topic, head.origin.topic)
    ]
    if traces.truncated or traces.scan_incomplete:
        gaps.add(Gap.TRACES_INCOMPLETE)
    if not any(not one.is_recall for one in told):
        gaps.add(Gap.NO_TRACES)
    events = [*life.copied(copies), *life.worked(told)]
    if head is not None:
        ended = {one.group for one in copies if one.role is Role.DEAD_LETTER}
        ended |= {one.group for one in told if one.result == "ok"}
        events += [*life.beginning(head), *_of_readers(head, ended)]
        if any(one.kind is Kind.HALF for one in events):
            gaps.add(Gap.HALF_TIME)
        locks, is_cut = _locks(head, told)
        gaps |= {Gap.LOCKS_INCOMPLETE} if is_cut else set()
        events += life.locked(locks, told, head.record.store_time_ms)
    of_letters, elsewhere = _of_letters(message_id, head, copies)
    events += of_letters
    events += _sent_elsewhere(message_id, head, elsewhere)
    events += _decided(message_id, topic)
    kept_back, is_cut = kept_back_of(message_id, _topics(topic, head))
    gaps |= {Gap.WAITING_INCOMPLETE} if is_cut else set()
    events += kept_back
    if head is None and not events:
        gaps.add(Gap.NOT_FOUND)
    return Life(
        message_id=message_id,
        topic=topic or (family.topic if family is not None else ""),
        head=head,
        events=life.in_order(events),
        gaps=frozenset(gaps),
        scan_incomplete=found.scan_incomplete or traces.scan_incomplete,
    )


def _families(found: Iterable[Seen]) -> list[Family]:
    return [one for one in families(found) if one.topic != TRACE_TOPIC]


def _followed(named: Sequence[Family], topic: str) -> Family | None:
    """Return the family to follow: of the topic, with an origin, the first one."""
    meant = [one for one in named if one.topic == topic] or list(named)
    with_head = [one for one in meant if one.head is not None]
    # The newest comes first.
    return next(iter(reversed(with_head or meant)), None)


def _gaps_of(named: Sequence[Family], family: Family | None, found: Found) -> set[Gap]:
    gaps: set[Gap] = set()
    if found.truncated or found.scan_incomplete:
        gaps.add(Gap.COPIES_INCOMPLETE)
    # What was sent again to another topic is there what an origin is, and no other message.
    origins = [one for one in named if one.head is not None and one.head.role is Role.ORIGIN]
    if family is not None and len(origins) > 1:
        gaps.add(Gap.SEVERAL)
    if family is not None and family.head is None:
        gaps.add(Gap.NOT_FOUND)
    return gaps


def _topics(topic: str, head: Seen | None) -> frozenset[str]:
    """Return where a message may be kept back; empty where nothing is known of it."""
    own = topic or ("" if head is None else head.topic)
    if not own:
        return frozenset()
    groups = bridge.call(lambda engine: engine.group_progress())
    return frozenset([own, *(RETRY_PREFIX + one.group for one in groups)])


def _traces(message_id: str) -> Found:
    wanted = Wanted(
        asked=Asked(meaning=Meaning.KEY, text=message_id),
        topic=TRACE_TOPIC,
        with_copies=False,
        messages_max=_TRACES_MAX,
    )
    try:
        return find(wanted)
    except InvalidArgument:
        # What holds a blank is no key, and so nobody can have told of it.
        return Found()


def _of_readers(head: Seen, ended: Collection[str | None]) -> list[Event]:
    """Return where groups are now that read the queue, but those for which it has `ended`."""
    record = head.record
    events = []
    for one in bridge.call(lambda engine: engine.group_progress()):
        if (one.topic, one.queue) != (record.topic, record.queue) or one.group in ended:
            continue
        events.append(
            Event(kind=_stand(one, record.queue_offset), source=Source.BROKER, group=one.group)
        )
    return events


def _stand(progress: GroupProgress, queue_offset: int) -> Kind:
    if progress.committed > queue_offset:
        return Kind.SETTLED
    return Kind.IN_FLIGHT if progress.delivered > queue_offset else Kind.NOT_YET


def _locks(head: Seen, told: Sequence[Told]) -> tuple[list[Lock], bool]:
    """Return how the queue's lock changed in the message's time, and whether that is not all."""
    record = head.record
    groups = {one.group for one in told if one.mode == "ordered"}
    stored_at = moment(record.store_time_ms)
    ended_ms = max((one.ended_ms for one in told), default=record.store_time_ms)
    until = min(moment(max(ended_ms, record.store_time_ms)), stored_at + _AFTER)
    rows = LockTransition.objects.filter(
        topic=record.topic, queue=record.queue, at__gte=stored_at - _BEFORE, at__lte=until
    )
    if groups:
        rows = rows.filter(group__in=groups)
    lines = list(rows.order_by("-at")[: _LOCKS_MAX + 1])
    return [
        Lock(
            group=row.group,
            at_ms=ms_of(row.at),
            change=row.change,
            owner=row.owner,
            previous_owner=row.previous_owner,
            reason=row.reason,
        )
        for row in lines[:_LOCKS_MAX]
    ], len(lines) > _LOCKS_MAX


def _decided(message_id: str, topic: str) -> list[Event]:
    """Return what people decided about the message's transaction, and what came of it."""
    rows = TransactionDecision.objects.filter(message_id=message_id)
    if topic:
        rows = rows.filter(topic=topic)
    return [
        Event(
            kind=Kind.DECIDED,
            source=Source.DECISIONS,
            at_ms=ms_of(row.at),
            group=row.producer_group,
            client_id=row.by,
            topic=row.topic,
            result=f"{row.asked} {row.answer}".strip().replace("_", " "),
            detail=row.reason,
        )
        for row in rows.order_by("pk")[:_DECISIONS_MAX]
    ]


def _of_letters(
    message_id: str, head: Seen | None, copies: Sequence[Seen]
) -> tuple[list[Event], list[str]]:
    """Return what rows of dead letters add to the log, and to which other topics they were sent."""
    groups = {one.group for one in copies if one.group}
    groups |= {one.group for one in bridge.call(lambda engine: engine.group_progress())}
    letters = DeadLetter.objects.filter(group__in=sorted(groups), message_id=message_id)
    if head is not None:
        letters = letters.filter(origin_topic=head.origin.topic)
    # What was sent again to the retry topic is there a retry, which says nothing of who sent it.
    known = {
        (one.topic, one.record.queue, one.record.queue_offset)
        for one in copies
        if one.role in (Role.DEAD_LETTER, Role.RESENT)
    }
    rows = list(letters.select_related("job").order_by("pk")[:_LETTERS_MAX])
    events = [event for row in rows for event in _of_letter(row, known)]
    own = "" if head is None else head.topic
    elsewhere = {
        row.resent_topic
        for row in rows
        if row.resent_topic not in ("", own) and not row.resent_topic.startswith(RETRY_PREFIX)
    }
    return events, sorted(elsewhere)[:_TOPICS_ELSEWHERE_MAX]


def _of_letter(row: DeadLetter, known: Collection[tuple[str, int, int]]) -> Iterator[Event]:
    if (DEAD_LETTER_PREFIX + row.group, 0, row.queue_offset) not in known:
        yield Event(
            kind=Kind.DEAD,
            source=Source.DEAD_LETTERS,
            at_ms=ms_of(row.dead_at),
            group=row.group,
            attempt=row.attempts,
            detail=row.reason,
        )
    resent_to = (row.resent_topic, row.resent_queue, row.resent_offset)
    if row.resent_at is not None and resent_to not in known:
        yield Event(
            kind=Kind.RESENT,
            source=Source.DEAD_LETTERS,
            at_ms=ms_of(row.resent_at),
            group=row.group,
            client_id="" if row.job is None else row.job.created_by,
            topic=row.resent_topic,
            queue=row.resent_queue,
            queue_offset=row.resent_offset,
        )
    if row.discarded_at is not None:
        yield Event(
            kind=Kind.DISCARDED,
            source=Source.DEAD_LETTERS,
            at_ms=ms_of(row.discarded_at),
            group=row.group,
            client_id=row.discarded_by,
            detail=row.discard_reason,
        )


def _sent_elsewhere(message_id: str, head: Seen | None, topics: Sequence[str]) -> list[Event]:
    """Return what became of the message in other topics, to which its dead letters were sent."""
    events: list[Event] = []
    asked = Asked(meaning=Meaning.ID, text=message_id)
    for topic in topics:
        try:
            found = find(Wanted(asked=asked, topic=topic, messages_max=_COPIES_MAX))
        except UnknownTopic:
            continue
        own = "" if head is None else head.topic
        there = [one for one in found.messages if own not in (one.topic, one.origin.topic)]
        events += life.copied(there)
        for one in there:
            if one.role is Role.RESENT:
                events += _of_readers(one, ())
    return events
