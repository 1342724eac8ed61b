"""Which workers and streams are there: rows that are renewed while their process lives."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from apps.audit.services import recorded
from apps.clockwork.claims import owners_of
from apps.core.actors import UNNAMED
from apps.pipelines.models import PipelineStream, PipelineWorker

# A worker says every 5 s that it is there.
SAY_EVERY_S = 5.0
SILENT = timedelta(seconds=20)
STREAM_LEASE = timedelta(seconds=30)
_FORGOTTEN = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a worker says of itself."""

    is_ready: bool = False
    run_id: int | None = None
    run_count: int = 0
    memory_bytes: int | None = None


def say(name: str, master: str, said: Said) -> None:
    """Write down that a worker is there, and forget those that went without a word."""
    PipelineWorker.objects.update_or_create(
        name=name,
        defaults={
            "master": master,
            "seen_at": Now(),
            "is_ready": said.is_ready,
            "run_id": said.run_id,
            "run_count": said.run_count,
            "memory_bytes": said.memory_bytes,
        },
    )
    PipelineWorker.objects.filter(seen_at__lt=Now() - _FORGOTTEN).delete()


def leave(name: str) -> None:
    """Write down that a worker ends."""
    PipelineWorker.objects.filter(name=name).delete()


def workers_there() -> QuerySet[PipelineWorker]:
    """Return the workers that were heard of lately."""
    return PipelineWorker.objects.filter(seen_at__gte=Now() - SILENT)


def take_stream(name: str, worker: str) -> PipelineStream | None:
    """Have a stream, which is made if there is none; None while another process has it."""
    PipelineStream.objects.get_or_create(name=name)
    free = Q(worker="") | Q(lease_ends_at__lt=Now())
    changed = PipelineStream.objects.filter(free, name=name).update(
        worker=worker, lease_ends_at=Now() + STREAM_LEASE, started_at=Now(), error="", lag=None
    )
    return PipelineStream.objects.get(name=name) if changed else None


def want_stream(name: str, *, is_wanted: bool, by: str = UNNAMED) -> None:
    """Write down whether a stream, which is made if there is none, is to be kept running."""
    with recorded(by=by, act="pipeline.want_stream", kind="pipeline stream", name=name) as entry:
        before = PipelineStream.objects.filter(name=name).first()
        PipelineStream.objects.update_or_create(name=name, defaults={"is_wanted": is_wanted})
        entry.before = None if before is None else {"is_wanted": before.is_wanted}
        entry.after = {"is_wanted": is_wanted}
        if entry.before == entry.after:
            entry.forget()


def streams_there() -> QuerySet[PipelineStream]:
    """Return the streams that a process has at this moment."""
    return PipelineStream.objects.filter(lease_ends_at__gte=Now())


def keep_stream(stream: PipelineStream) -> bool:
    """Renew the lease of a stream; False when it is another's or is not wanted any more."""
    return bool(
        PipelineStream.objects.filter(pk=stream.pk, worker=stream.worker, is_wanted=True).update(
            lease_ends_at=Now() + STREAM_LEASE
        )
    )


def free_stream(name: str, number: int) -> None:
    """Take a stream from a process of this machine that has ended; another's is left alone."""
    PipelineStream.objects.filter(name=name, worker__startswith=owners_of(number)).update(
        worker="", lease_ends_at=None, lag=None
    )


def leave_stream(stream: PipelineStream, *, error: str = "") -> None:
    """Give a stream back, and say how it ended; how far it is behind nobody knows then."""
    PipelineStream.objects.filter(pk=stream.pk, worker=stream.worker).update(
        worker="", lease_ends_at=None, lag=None, error=error.replace("\0", "")[:4_000]
    )
