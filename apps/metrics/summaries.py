"""Keeps the rows that lists and alerts read: one a topic and one a group, of the newest sample.

Runs in the transaction of a sample. Knows rows and values; asks no engine.
"""

from collections.abc import Iterable, Mapping, Sequence

from django.db import connection
from django.db.models import Model

from apps.core.moments import moment
from apps.groups.models import ConsumerGroup
from apps.groups.rates import drain_ms
from apps.groups.retrytopics import group_of
from apps.metrics import readings
from apps.metrics.models import GroupSummary, TopicSummary
from apps.metrics.models.summaries import Summary
from apps.metrics.readings import GroupReading, Reading, TopicReading, known_sum
from apps.topics.models import Topic

# A list shows these; the page of the group has all.
TOPICS_TOLD = 20
_ROWS_PER_STATEMENT = 2_000
# Any number of ours: runs of two slots at once keep the summaries one after the other.
_LOCK = 7_215_001
_LOOKS = (
    "looked_at", "oldest_age_ms", "blocked", "members", "refusals", "refusal_rate", "dead_letters",
)  # fmt: skip
_TOPIC_LOOKS = ("oldest_age_ms", "blocked")


def keep(now: Reading, before: Reading | None) -> None:
    """Make the summaries those of a reading, unless they are of a later one.

    What the reading does not know anything of has no row any more. Without a look, what the last
    look saw stays.
    """
    taken_at = moment(now.taken_ms)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    if GroupSummary.objects.filter(sampled_at__gt=taken_at).exists():
        return
    is_look = now.look is not None
    _write(GroupSummary, _groups(now, before), left_out=() if is_look else _LOOKS)
    _write(TopicSummary, _topics(now, before), left_out=() if is_look else _TOPIC_LOOKS)
    for model in (GroupSummary, TopicSummary):
        model.objects.filter(sampled_at__lt=taken_at).delete()


def _write(model: type[Summary], rows: Iterable[Summary], *, left_out: Sequence[str]) -> None:
    # In the order of names, so that two of us wait in a line and not in a circle.
    model._default_manager.bulk_create(
        sorted(rows, key=lambda row: row.name),
        batch_size=_ROWS_PER_STATEMENT,
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=[name for name in _columns(model) if name not in left_out],
    )


def _columns(model: type[Model]) -> list[str]:
    return [
        field.name
        for field in model._meta.concrete_fields
        if not field.primary_key and field.name != "name"
    ]


def _groups(now: Reading, before: Reading | None) -> list[GroupSummary]:
    found: dict[str, dict[str, GroupReading]] = {}
    for (group, topic), reading in now.groups.items():
        found.setdefault(group, {})[topic] = reading
    decided = dict(ConsumerGroup.objects.values_list("name", "ordered"))
    seen = set(now.look.topics) if now.look else set()
    rates = {
        "consume_rate": _by_group(readings.consume_rates(now, before)),
        "arrive_rate": _by_group(readings.arrive_rates(now, before)),
        "refusal_rate": _by_group(readings.refusal_rates(now, before)),
    }
    return [
        _group(
            name,
            found.get(name, {}),
            now,
            is_ordered=decided.get(name, False)
            or (now.look is not None and name in now.look.ordered),
            rates={kind: readings.total(of.get(name, ())) for kind, of in rates.items()},
        )
        for name in found.keys() | seen | decided.keys()
    ]


def _group(
    name: str,
    topics: Mapping[str, GroupReading],
    now: Reading,
    *,
    is_ordered: bool,
    rates: Mapping[str, float | None],
) -> GroupSummary:
    look = now.look
    lag = known_sum(reading.lag for reading in topics.values()) if topics else None
    wanted = {topic for topic in topics if group_of(topic) is None}
    if look is not None:
        wanted.update(*look.topics.get(name, {}).values())
    seen = [reading.look for reading in topics.values() if reading.look is not None]
    return GroupSummary(
        name=name,
        sampled_at=moment(now.taken_ms),
        topics=sorted(wanted)[:TOPICS_TOLD],
        topic_count=len(wanted),
        queue_count=sum(reading.queue_count for reading in topics.values()),
        is_ordered=is_ordered,
        committed=known_sum(one.committed for one in topics.values()) if topics else None,
        in_flight=known_sum(one.in_flight for one in topics.values()) if topics else None,
        lag=lag,
        retry_lag=_retry_lag(name, topics),
        consume_rate=rates["consume_rate"],
        arrive_rate=rates["arrive_rate"],
        drain_ms=None
        if lag is None
        else drain_ms(lag, in_per_s=rates["arrive_rate"], out_per_s=rates["consume_rate"]),
        looked_at=None if look is None else moment(now.taken_ms),
        oldest_age_ms=_oldest(topics.values()),
        blocked=None if look is None else sum(one.blocked for one in seen),
        members=None if look is None else look.members(name),
        refusals=None if look is None else sum(one.refusals for one in seen),
        refusal_rate=rates["refusal_rate"],
        dead_letters=None if look is None else look.dead_letters.get(name, 0),
    )


def _topics(now: Reading, before: Reading | None) -> list[TopicSummary]:
    readers: dict[str, list[GroupReading]] = {}
    for (_, topic), reading in now.groups.items():
        readers.setdefault(topic, []).append(reading)
    rates = readings.send_rates(now, before)
    known = {
        name: (kind, cleanup, queue_count)
        for name, kind, cleanup, queue_count in Topic.objects.values_list(
            "name", "type", "cleanup", "queue_count"
        )
    }
    return [
        _topic(name, found, readers.get(name, []), now, rate=rates[name], known=known.get(name))
        for name, found in now.topics.items()
        if group_of(name) is None
    ]


def _topic(
    name: str,
    found: TopicReading,
    readers: Sequence[GroupReading],
    now: Reading,
    *,
    rate: float | None,
    known: tuple[str, str, int] | None,
) -> TopicSummary:
    kind, cleanup, queue_count = known or ("", "", None)
    lag = known_sum(reading.lag for reading in readers) if readers else None
    seen = [reading.look for reading in readers if reading.look is not None]
    return TopicSummary(
        name=name,
        sampled_at=moment(now.taken_ms),
        type=kind,
        cleanup=cleanup,
        queue_count=queue_count,
        sent=found.sent,
        held=found.held,
        send_rate=rate,
        group_count=len(readers),
        lag=lag,
        lag_max=None if lag is None else max(reading.lag or 0 for reading in readers),
        oldest_age_ms=_oldest(readers),
        blocked=None if now.look is None else sum(one.blocked for one in seen),
    )


def _by_group(
    rates: Mapping[readings.GroupKey, float | None],
) -> Mapping[str, list[float | None]]:
    found: dict[str, list[float | None]] = {}
    for (group, _), rate in rates.items():
        found.setdefault(group, []).append(rate)
    return found


def _retry_lag(name: str, topics: Mapping[str, GroupReading]) -> int | None:
    if not topics:
        return None
    return sum(reading.lag or 0 for topic, reading in topics.items() if group_of(topic) == name)


def _oldest(found: Iterable[GroupReading]) -> int | None:
    """Return the age of the oldest message left to do: 0 without one, None where not known."""
    ages_ms = []
    for reading in found:
        if reading.look is None or reading.look.oldest_age_ms is None:
            # One that nobody knows the age of may be the oldest.
            return None
        ages_ms.append(reading.look.oldest_age_ms)
    return max(ages_ms, default=None)
