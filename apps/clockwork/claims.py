"""Single flight of a task: a lease in the database with an owner and an end. Runs nothing.

A task is due once a slot. Slots lie at multiples of its interval: ticks that come late, twice or in
a burst still make one run a slot, and ticks that were missed make one run in all.
"""

import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from django.db import connection, transaction
from django.db.models import F, Value
from django.db.models.functions import Greatest

from apps.clockwork.models import Outcome, TaskRun, TaskState

# A failed run is repeated sooner than its next slot, with pauses that double.
PAUSE_AFTER_FAILURE_S = 30
ERROR_CHARACTERS_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to run a task now, until `hold_s` after its start."""

    name: str
    owner: str
    every_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended, as it is written down."""

    outcome: Outcome
    done: int | None = None
    has_more: bool = False
    error: str = ""


def new_owner() -> str:
    """Return a name no other run has, which says where the run is."""
    return f"{owners_of(os.getpid())}{uuid4().hex[:12]}"


def owners_of(number: int) -> str:
    """Return what the names of all runs of a process of this machine begin with."""
    return f"{socket.gethostname()[:200]}:{number}:"


def claim(name: str, *, every_s: int, hold_s: int, owner: str) -> Claim | None:
    """Take the task when it is due and nobody runs it; return None otherwise.

    A lease that has run out is taken over, and its run written down as interrupted. A due time or
    a lease further ahead than it can be means that the database's clock was set back: it is
    treated as over.
    """
    with transaction.atomic():
        row = _locked(name)
        if row is None and TaskState.objects.get_or_create(name=name)[1]:
            row = _locked(name)
        # A locked row is being claimed or finished by another worker at this moment.
        if row is None:
            return None
        now = _now()
        if not _is_due(row, now, every_s) or _is_held(row, now, hold_s):
            return None
        if row.owner:
            _write_end(name, row.owner, now, Ended(outcome=Outcome.INTERRUPTED))
            row.last_outcome = Outcome.INTERRUPTED
        row.owner = owner
        row.lease_ends_at = now + timedelta(seconds=hold_s)
        row.last_started_at = now
        row.run_count += 1
        row.save()
        TaskRun.objects.create(task=name, owner=owner, started_at=now)
    return Claim(name=name, owner=owner, every_s=every_s)


def finish(claimed: Claim, ended: Ended) -> bool:
    """Write down how the run ended and give the task back.

    Return False when another run has taken the task over meanwhile: its row is then left alone.
    """
    with transaction.atomic():
        row = TaskState.objects.select_for_update().get(name=claimed.name)
        now = _now()
        is_ours = row.owner == claimed.owner
        if is_ours:
            _give_back(row, now, claimed.every_s, ended)
            _write_end(claimed.name, claimed.owner, now, ended)
    return is_ours


def _locked(name: str) -> TaskState | None:
    """Return the task's row, locked; None where there is none, or another has locked it."""
    return TaskState.objects.select_for_update(skip_locked=True).filter(name=name).first()


def _now() -> datetime:
    """Return the database's time; to be asked for once the row is locked.

    The time a statement or transaction began may be from before the run that had the row, whose
    lease would then seem to be of a clock that was set back.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now


def _is_due(row: TaskState, now: datetime, every_s: int) -> bool:
    return row.has_more or row.due_at <= now or row.due_at > now + timedelta(seconds=every_s)


def _is_held(row: TaskState, now: datetime, hold_s: int) -> bool:
    ends_at = row.lease_ends_at
    return ends_at is not None and now < ends_at <= now + timedelta(seconds=hold_s)


def _give_back(row: TaskState, now: datetime, every_s: int, ended: Ended) -> None:
    started_at = row.last_started_at or now
    # The database's clock may have been set back during the run.
    duration = max(now - started_at, timedelta())
    has_failed = ended.outcome == Outcome.FAILED
    row.owner, row.lease_ends_at = "", None
    row.has_more = ended.has_more
    row.failures_in_a_row = row.failures_in_a_row + 1 if has_failed else 0
    row.due_at = next_slot(started_at, every_s)
    if has_failed:
        pause_s = PAUSE_AFTER_FAILURE_S * 2 ** min(row.failures_in_a_row - 1, 10)
        row.due_at = min(row.due_at, now + timedelta(seconds=pause_s))
    row.last_ended_at = now
    row.last_duration_ms = int(duration.total_seconds() * 1000)
    row.last_outcome = ended.outcome
    row.last_error = ended.error[:ERROR_CHARACTERS_MAX]
    row.last_done = ended.done
    row.save()


def _write_end(name: str, owner: str, now: datetime, ended: Ended) -> None:
    TaskRun.objects.filter(task=name, owner=owner).update(
        ended_at=Greatest(Value(now), F("started_at")),
        outcome=ended.outcome,
        done=ended.done,
        has_more=ended.has_more,
        error=ended.error[:ERROR_CHARACTERS_MAX],
    )


def next_slot(moment: datetime, every_s: int) -> datetime:
    """Return the beginning of the slot after the one `moment` is in."""
    slot = int(moment.timestamp()) // every_s
    return datetime.fromtimestamp((slot + 1) * every_s, UTC)
