"""Lines of the engine's history into rows, once each. Knows rows and values, no engine."""

import logging
from datetime import datetime, timedelta

from django.db.models import Max

from apps.core.moments import moment
from apps.engine.grouptypes import GroupHistory
from apps.groups import models
from apps.groups.catalog import json_of
from apps.groups.models.fields import REASON_CHARACTERS_MAX
from apps.groups.projection.levelling import level

KEEP = timedelta(days=30)

_KEYS = ("store_id", "number")
_log = logging.getLogger("mqweb.groups")


def write_history(history: GroupHistory, *, store_id: str, now_ms: int) -> int:
    """Write the lines that have no row yet, and return how many; log a gap before them.

    Lines that are older than rows are kept are left out. A line is known by store and number; in a
    store that came from a backup numbers are given again, and the row becomes the newer line's.
    """
    numbers = [line.number for line in history.transitions]
    numbers += [line.number for line in history.rebalances]
    if not numbers:
        return 0
    if history.has_gap:
        _note_gap(min(numbers), store_id)
    oldest = moment(now_ms) - KEEP
    return _write_transitions(history, store_id, oldest) + _write_rebalances(
        history, store_id, oldest
    )


def _note_gap(first: int, store_id: str) -> None:
    newest = max(
        (
            found
            for model in (models.LockTransition, models.Rebalance)
            if (found := _newest(model, store_id)) is not None
        ),
        default=None,
    )
    # After a start the engine is asked for everything, and most of it has its rows.
    if newest is None or newest < first:
        _log.warning("group_history_gap", extra={"after": newest, "before": first})


def _newest(
    model: type[models.LockTransition] | type[models.Rebalance], store_id: str
) -> int | None:
    found: int | None = model._default_manager.filter(store_id=store_id).aggregate(
        newest=Max("number")
    )["newest"]
    return found


def _write_transitions(history: GroupHistory, store_id: str, oldest: datetime) -> int:
    wanted = {
        (store_id, line.number): models.LockTransition(
            store_id=store_id,
            number=line.number,
            at=moment(line.at_ms),
            group=line.group,
            topic=line.topic,
            queue=line.queue,
            change=line.change.value,
            owner=line.owner,
            previous_owner=line.previous_owner,
            epoch=line.epoch,
            reason=line.reason[:REASON_CHARACTERS_MAX],
        )
        for line in history.transitions
    }
    wanted = {key: row for key, row in wanted.items() if row.at >= oldest}
    held = models.LockTransition.objects.filter(
        store_id=store_id, number__in=[number for _, number in wanted]
    )
    columns = ("at", "group", "topic", "queue", "change", "owner", "previous_owner", "epoch")
    return level(held, wanted, keys=_KEYS, compared=(*columns, "reason")).written


def _write_rebalances(history: GroupHistory, store_id: str, oldest: datetime) -> int:
    wanted = {
        (store_id, line.number): models.Rebalance(
            store_id=store_id,
            number=line.number,
            at=moment(line.at_ms),
            group=line.group,
            generation=line.generation,
            reason=line.reason[:REASON_CHARACTERS_MAX],
            strategy=line.strategy.value,
            assignment=json_of(line.assignment),
            queues_moved=line.queues_moved,
        )
        for line in history.rebalances
    }
    wanted = {key: row for key, row in wanted.items() if row.at >= oldest}
    held = models.Rebalance.objects.filter(
        store_id=store_id, number__in=[number for _, number in wanted]
    )
    # The assignment follows from the rest: a generation is computed once.
    compared = ("at", "group", "generation", "reason", "strategy", "queues_moved")
    return level(held, wanted, keys=_KEYS, compared=compared, written=("assignment",)).written
