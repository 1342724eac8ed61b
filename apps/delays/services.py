"""What is done about delayed messages: by the clockwork each second, and by operators.

The engine delivers and decides; rows here only say how far it is.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import datetime, timedelta

from django.db import transaction

from apps.audit.services import Recording, recorded
from apps.bridge import engine as bridge
from apps.clockwork.steps import Step
from apps.core.moments import moment
from apps.delays.handles import named_by
from apps.delays.models import DelayLevel
from apps.engine.delaytypes import DelayLevelState, Recall

# One call holds the engine's loop for some milliseconds at most; so many make a step, which ends
# within its second on a busy machine, and the next begins at once where more is due.
MESSAGES_PER_CALL = 1_000
CALLS_PER_STEP = 10
# A level in which nothing moves is written again when its row is this old.
_REFRESH = timedelta(seconds=10)
_COLUMNS = ("delay_ms", "delivered", "max_offset", "head_due_at", "late_ms")

_log = logging.getLogger("mqweb.delays")


def deliver_levels(*, now_ms: int) -> Step:
    """Have the engine deliver what is due in the delay levels, at most 10,000 messages.

    `done` counts messages. Each is delivered once by the engine's own log, however many workers do
    it at once and wherever one of them ends. Raises Busy while the engine cannot be asked.
    """
    delivered, has_more = 0, True
    for _ in range(CALLS_PER_STEP):
        found = bridge.call(lambda engine: engine.deliver_levels(MESSAGES_PER_CALL))
        delivered += found.delivered
        has_more = found.more
        if not has_more:
            break
    _keep_progress(moment(now_ms))
    return Step(done=delivered, more=has_more)


def cancel(*, handle: str, by: str) -> Recall:
    """Cancel a delayed message for good; anything but CANCELLED leaves it as it is.

    Raises Busy while the engine cannot be asked.
    """
    with _recorded("delayed.cancel", handle, by) as entry:
        outcome = bridge.call(lambda engine: engine.recall(handle))
        _keep_outcome(entry, outcome, wanted=Recall.CANCELLED)
    _log.info("delayed_recalled", extra={"outcome": outcome.value, "by": by})
    return outcome


def deliver_now(*, handle: str, by: str) -> Recall:
    """Deliver a delayed message before its time; anything but DELIVERED leaves it as it is.

    Raises Busy while the engine cannot be asked.
    """
    with _recorded("delayed.deliver_now", handle, by) as entry:
        outcome = bridge.call(lambda engine: engine.deliver_now(handle))
        _keep_outcome(entry, outcome, wanted=Recall.DELIVERED)
    _log.info("delayed_sent_now", extra={"outcome": outcome.value, "by": by})
    return outcome


def _recorded(act: str, handle: str, by: str) -> AbstractContextManager[Recording]:
    named = named_by(handle)
    return recorded(
        by=by,
        act=act,
        kind="delayed message",
        name="" if named is None else named.message_id,
        before=None if named is None else asdict(named),
    )


def _keep_outcome(entry: Recording, outcome: Recall, *, wanted: Recall) -> None:
    entry.after = {"state": outcome.value}
    if outcome is not wanted:
        entry.refuse(
            f"already_{outcome.value}" if outcome is not Recall.UNKNOWN else "unknown_handle"
        )


def _keep_progress(now: datetime) -> None:
    with transaction.atomic():
        # Whoever holds the rows has asked the engine after everybody who held them before: progress
        # is written in the order in which it was made.
        locked = DelayLevel.objects.select_for_update().order_by("level")
        rows = {row.level: row for row in locked}
        states = bridge.call(lambda engine: engine.delay_levels()).levels
        outdated = _outdated(rows, states, now)
        if outdated:
            DelayLevel.objects.bulk_create(
                outdated,
                update_conflicts=True,
                unique_fields=["level"],
                update_fields=[*_COLUMNS, "sampled_at"],
            )
        if gone := rows.keys() - {state.level for state in states}:
            DelayLevel.objects.filter(level__in=gone).delete()


def _outdated(
    rows: Mapping[int, DelayLevel], states: Sequence[DelayLevelState], now: datetime
) -> list[DelayLevel]:
    """Return the rows that have to be written, by level."""
    outdated = []
    for state in sorted(states, key=lambda state: state.level):
        wanted, row = _row_of(state, now), rows.get(state.level)
        if (
            row is None
            or any(getattr(row, column) != getattr(wanted, column) for column in _COLUMNS)
            # In either direction: a clock that was set back makes no row fresh.
            or abs(now - row.sampled_at) >= _REFRESH
        ):
            outdated.append(wanted)
    return outdated


def _row_of(state: DelayLevelState, now: datetime) -> DelayLevel:
    return DelayLevel(
        level=state.level,
        delay_ms=state.delay_ms,
        delivered=state.delivered,
        max_offset=state.max_offset,
        head_due_at=None if state.head_due_ms is None else moment(state.head_due_ms),
        late_ms=state.late_ms,
        sampled_at=now,
    )
