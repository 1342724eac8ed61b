"""Who has a run: a lease in the database with an owner and an end. Runs nothing.

Time is the database's, so that workers of several machines agree about what has ended. A run whose
lease has ended is INTERRUPTED by whoever looks next; its worker can then neither renew, finish nor
publish it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import Case, Exists, F, IntegerField, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Now

from apps.pipelines.catalogue import COPYING, READING_BRONZE
from apps.pipelines.models import PipelineRun, RunState, Trigger
from apps.pipelines.models.runs import ACTIVE, ERROR_CHARACTERS_MAX

LEASE = timedelta(seconds=30)

# A message is seen at the latest so long after it was stored: a silent log is proven by its next
# checkpoint.
SETTLE = timedelta(seconds=15)

WAITS_FOR_COPY = "waiting for messages to be copied"

LOST = "its worker was killed, or lost the database for longer than its lease"

COPY = "ingest"
"""The job that copies what the others read."""

# Any number that no other part of the product takes.
_LOCK = 0x6D71_7770


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is. None and the empty text are unknown."""

    stage: str = ""
    percent: float | None = None
    rows_read: int | None = None
    rows_expected: int | None = None
    cpu_ms: int | None = None
    memory_bytes_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the row says to its worker: whether to stop, and whether it is its own still."""

    is_ours: bool
    is_cancelled: bool


def claim(worker: str, *, run_id: int | None = None) -> PipelineRun | None:
    """Take the run that waits longest, or the one that is named, for the time of a lease.

    Runs of a backfill come after all others. None: nothing waits, or the run that is named does
    not, or may not begin: while another run of its job moves the same tables, while what it is to
    read is being copied for it, or, to copy for another, while that one's window may not show yet.
    """
    with transaction.atomic():
        # One claim at a time: two could begin two runs of a job that copies.
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        waiting = PipelineRun.objects.filter(state=RunState.QUEUED)
        if run_id is not None:
            waiting = waiting.filter(pk=run_id)
        running = PipelineRun.objects.filter(state=RunState.RUNNING, job__in=COPYING)
        same_window = PipelineRun.objects.filter(
            window_start=OuterRef("window_start"), window_end=OuterRef("window_end")
        )
        copies = same_window.filter(job=COPY, state__in=ACTIVE)
        waits_for_it = same_window.filter(stage=WAITS_FOR_COPY, state=RunState.QUEUED)
        # What somebody is cancelling at this moment is passed over, not waited for.
        run = (
            waiting.exclude(job__in=running.values("job"))
            .exclude(Exists(copies), job__in=READING_BRONZE)
            .exclude(Exists(waits_for_it), job=COPY, window_end__gt=Now() - SETTLE)
            .select_for_update(skip_locked=True, of=("self",))
            .annotate(
                rank=Case(
                    When(trigger=Trigger.BACKFILL, then=Value(1)),
                    default=Value(0),
                    output_field=IntegerField(),
                )
            )
            .order_by("rank", "id")
            .first()
        )
        if run is None:
            return None
        PipelineRun.objects.filter(pk=run.pk).update(
            state=RunState.RUNNING, worker=worker, started_at=Now(), lease_ends_at=Now() + LEASE
        )
        run.refresh_from_db()
    return run


def renew(run: PipelineRun, progress: Progress) -> Told:
    """Write down how far a run is, and make its lease last for another half a minute."""
    changed = _ours(run).update(
        lease_ends_at=Now() + LEASE,
        stage=progress.stage[:100],
        percent=progress.percent,
        stage_rows_read=progress.rows_read,
        rows_expected=progress.rows_expected,
        cpu_ms=progress.cpu_ms,
        memory_bytes_max=progress.memory_bytes_max,
    )
    return look(run) if changed else Told(is_ours=False, is_cancelled=False)


def look(run: PipelineRun) -> Told:
    """Return what the row says, and change nothing."""
    found = _ours(run).values_list("cancel_requested", flat=True).first()
    return Told(is_ours=found is not None, is_cancelled=bool(found))


def put_back(run: PipelineRun) -> bool:
    """Have a run wait again, for what is to be copied first; its worker has it no more.

    Return False, and change nothing, where it is not this worker's any more or is called off.
    """
    changed = (
        _ours(run)
        .filter(cancel_requested=False)
        .update(
            state=RunState.QUEUED,
            worker="",
            started_at=None,
            lease_ends_at=None,
            stage=WAITS_FOR_COPY,
        )
    )
    return bool(changed)


def finish(run: PipelineRun, state: RunState, *, error: str = "") -> bool:
    """End a run that came to nothing: FAILED, CANCELLED or INTERRUPTED.

    Return False where it is not this worker's any more, or is done; nothing is changed then.
    """
    changed = _ours(run).update(
        state=state,
        error=error.replace("\0", "")[:ERROR_CHARACTERS_MAX],
        ended_at=Now(),
        lease_ends_at=None,
    )
    return bool(changed)


def settle(run: PipelineRun, *, duration_ms: int, cpu_ms: int, memory_bytes_max: int) -> None:
    """Write down what a run has cost, once it has ended."""
    PipelineRun.objects.filter(pk=run.pk, worker=run.worker).exclude(state=RunState.RUNNING).update(
        duration_ms=duration_ms, cpu_ms=cpu_ms, memory_bytes_max=memory_bytes_max
    )


def expire() -> list[PipelineRun]:
    """Interrupt the runs whose lease has ended, and return them.

    A lease that ends later than it can means that the database's clock was set back.
    """
    over = Q(lease_ends_at__lt=Now()) | Q(lease_ends_at__gt=Now() + 2 * LEASE)
    with transaction.atomic():
        rows = list(
            PipelineRun.objects.select_for_update(skip_locked=True, of=("self",)).filter(
                over | Q(lease_ends_at=None), state=RunState.RUNNING
            )
        )
        _interrupt(row.pk for row in rows)
    for row in rows:
        row.refresh_from_db()
    return rows


def _interrupt(numbers: Iterable[int]) -> None:
    PipelineRun.objects.filter(pk__in=list(numbers)).update(
        state=Case(
            When(cancel_requested=True, then=Value(RunState.CANCELLED)),
            default=Value(RunState.INTERRUPTED),
        ),
        error=Value(LOST),
        # The clock may have been set back since it began.
        ended_at=Case(When(started_at__gt=Now(), then=F("started_at")), default=Now()),
        lease_ends_at=None,
    )


def _ours(run: PipelineRun) -> QuerySet[PipelineRun]:
    return PipelineRun.objects.filter(pk=run.pk, worker=run.worker, state=RunState.RUNNING)
