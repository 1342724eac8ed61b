"""A reading as columns of rows. Pure: knows names of columns, no row and no clock."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from apps.core.moments import moment
from apps.metrics import readings
from apps.metrics.readings import GroupReading, Reading, known_sum

Columns: TypeAlias = dict[str, object]
"""Values of a row by column; their types are the model's."""


def topic_rows(now: Reading, before: Reading | None) -> Iterator[Columns]:
    """Yield the columns of each topic."""
    rates = readings.send_rates(now, before)
    for topic, found in now.topics.items():
        yield {
            "topic": topic,
            **_counts(sent=found.sent, held=found.held),
            **_rates(send_rate=rates[topic]),
        }


def group_rows(now: Reading, before: Reading | None) -> Iterator[Columns]:
    """Yield the columns of each group in each topic."""
    rates = _group_rates(now, before)
    for key, found in now.groups.items():
        yield {
            "group": key[0],
            "topic": key[1],
            "queue_count": found.queue_count,
            **_counts(
                committed=found.committed,
                delivered=found.delivered,
                in_flight=found.in_flight,
                lag=found.lag,
                **_looks(found),
            ),
            **_rates(**{name: of[key] for name, of in rates.items()}),
        }


def store_columns(now: Reading, before: Reading | None) -> Columns:
    """Return the columns of all topics and groups together."""
    topics, groups = now.topics.values(), now.groups.values()
    return {
        "taken_at": moment(now.taken_ms),
        **_counts(
            sent=sum(found.sent for found in topics),
            held=sum(found.held for found in topics),
            committed=known_sum(found.committed for found in groups),
            delivered=known_sum(found.delivered for found in groups),
            in_flight=known_sum(found.in_flight for found in groups),
            # Without a group nothing is late: there is no lag to speak of, and that is not zero.
            lag=known_sum(found.lag for found in groups) if groups else None,
            log_bytes=now.log_bytes,
            disk_percent=now.disk_percent,
            **_looks_of_all(now),
        ),
        **_rates(
            send_rate=readings.total(readings.send_rates(now, before).values()),
            **{name: readings.total(of.values()) for name, of in _group_rates(now, before).items()},
        ),
    }


def _group_rates(
    now: Reading, before: Reading | None
) -> Mapping[str, Mapping[readings.GroupKey, float | None]]:
    return {
        "consume_rate": readings.consume_rates(now, before),
        "arrive_rate": readings.arrive_rates(now, before),
        "refusal_rate": readings.refusal_rates(now, before),
    }


def _looks(found: GroupReading) -> dict[str, int | None]:
    look = found.look
    return {
        "oldest_age_ms": None if look is None else look.oldest_age_ms,
        "blocked": None if look is None else look.blocked,
        "members": None if look is None else look.members,
        "refusals": None if look is None else look.refusals,
    }


def _looks_of_all(now: Reading) -> dict[str, int | None]:
    if now.look is None:
        return {"oldest_age_ms": None, "blocked": None, "members": None, "refusals": None}
    seen = [found.look for found in now.groups.values() if found.look is not None]
    ages_ms = [look.oldest_age_ms for look in seen if look.oldest_age_ms is not None]
    return {
        "oldest_age_ms": max(ages_ms, default=None),
        "blocked": sum(look.blocked for look in seen),
        "members": sum(len(members) for members in now.look.topics.values()),
        "refusals": sum(look.refusals for look in seen),
    }


def _counts(**values: int | None) -> Columns:
    return {
        f"{name}{suffix}": value
        for name, value in values.items()
        for suffix in ("", "_min", "_max")
    }


def _rates(**values: float | None) -> Columns:
    columns: Columns = {}
    for name, value in values.items():
        columns |= {name: value, f"{name}_min": value, f"{name}_max": value}
        columns[f"{name}_samples"] = 0 if value is None else 1
    return columns
