"""Rows of a finer resolution to one coarser row of each key, in SQL. Knows no task.

A row says how many samples went into it. A slot whose row counts fewer than there are is due: it
was never rolled up, or a sample came late. The samples of the store are counted, because they
stand for all rows of their slot.
"""

from datetime import UTC, datetime

from django.db import connection, transaction
from django.db.models import Sum
from django.db.models.functions import Trunc
from psycopg import sql

from apps.core.moments import moment, ms_of
from apps.metrics.models import GroupSample, Sample, StoreSample, TopicSample
from apps.metrics.resolutions import HOUR, MINUTE, Resolution

# A slot is due this long after its end: samples that were under way have arrived by then.
SETTLE_MS = 15_000

_UNITS = {MINUTE: "minute", HOUR: "hour"}

# Rows are written in the order of their keys, so that two of us wait in a line and not in a circle.
# A row never goes back to fewer samples: one of us may have begun before the newest came.
_ROLL_UP = sql.SQL(
    """
    INSERT INTO {table} AS coarse ({keys} resolution_s, at, samples, {columns})
    SELECT {keys} %(coarser_s)s, %(at)s, sum(samples), {aggregates}
    FROM {table}
    WHERE resolution_s = %(finer_s)s AND at >= %(at)s AND at < %(end)s
    GROUP BY {keys} resolution_s
    ORDER BY {keys} resolution_s
    ON CONFLICT ({keys} resolution_s, at) DO UPDATE
    SET (samples, {columns}) = ROW (excluded.samples, {excluded})
    WHERE coarse.samples <= excluded.samples
    """
)
_NEWEST = sql.SQL("(array_agg({0} ORDER BY at DESC))[1]")
_NEWEST_KNOWN = sql.SQL("(array_agg({0} ORDER BY at DESC) FILTER (WHERE {0} IS NOT NULL))[1]")
_LOWEST = sql.SQL("min({0})")
_HIGHEST = sql.SQL("max({0})")
_SUM = sql.SQL("sum({0})")
# In order, because a sum of floats depends on it and must come out the same each time.
_MEAN = sql.SQL("sum({0} * {1} ORDER BY at) / nullif(sum({1}), 0)")


def pending(finer: Resolution, coarser: Resolution, *, now_ms: int) -> list[int]:
    """Return the beginnings of the slots of `coarser` that are over and due, the oldest first."""
    samples = StoreSample.objects.order_by("at")
    there = (
        samples.filter(
            resolution_s=finer.seconds, at__lt=moment(coarser.slot_ms(now_ms - SETTLE_MS))
        )
        .annotate(slot=Trunc("at", _UNITS[coarser], tzinfo=UTC))
        .order_by("slot")
        .values_list("slot")
        .annotate(there=Sum("samples"))
    )
    counted = dict(samples.filter(resolution_s=coarser.seconds).values_list("at", "samples"))
    return [ms_of(slot) for slot, count in there if counted.get(slot, 0) < count]


def roll_up(finer: Resolution, coarser: Resolution, slot_ms: int) -> None:
    """Write the rows of one slot of `coarser`; those that are there get what the samples say now.

    Counts keep the newest value, looks the newest known one, both with the lowest and the highest;
    rates the mean of the samples that know them, the lowest and the highest. What no sample knows
    stays unknown.
    """
    slot: dict[str, int | datetime] = {
        "finer_s": finer.seconds,
        "coarser_s": coarser.seconds,
        "at": moment(slot_ms),
        "end": moment(slot_ms + coarser.ms),
    }
    with transaction.atomic(), connection.cursor() as cursor:
        # The store goes first: a sample that comes in between is then not counted, and the slot is
        # due again, although topics and groups may have seen it.
        for model in (StoreSample, TopicSample, GroupSample):
            cursor.execute(_statement(model), slot)


def _statement(model: type[Sample]) -> sql.Composed:
    aggregates = _aggregates(model)
    columns = [sql.Identifier(column) for column in aggregates]
    comma = sql.SQL(", ")
    return _ROLL_UP.format(
        table=sql.Identifier(model._meta.db_table),
        keys=sql.SQL("").join(sql.SQL("{}, ").format(sql.Identifier(key)) for key in model.keys),
        columns=comma.join(columns),
        aggregates=comma.join(aggregates.values()),
        excluded=comma.join(sql.SQL("excluded.{}").format(column) for column in columns),
    )


def _aggregates(model: type[Sample]) -> dict[str, sql.Composed]:
    """Return how each column of a coarse row is made, by column."""
    found = {name: _NEWEST.format(sql.Identifier(name)) for name in (*model.marks, *model.counts)}
    found |= {name: _NEWEST_KNOWN.format(sql.Identifier(name)) for name in model.looks}
    for name in model.rates:
        samples = f"{name}_samples"
        found[name] = _MEAN.format(sql.Identifier(name), sql.Identifier(samples))
        found[samples] = _SUM.format(sql.Identifier(samples))
    for name in (*model.counts, *model.looks, *model.rates):
        found[f"{name}_min"] = _LOWEST.format(sql.Identifier(f"{name}_min"))
        found[f"{name}_max"] = _HIGHEST.format(sql.Identifier(f"{name}_max"))
    return found
