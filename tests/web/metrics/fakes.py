"""An engine that is only numbers, a clock set by hand, and rows made without either."""

from apps.core.moments import moment
from apps.engine.grouptypes import MemberState, QueueBacklog
from apps.engine.litetypes import LiteBacklog
from apps.engine.types import (
    ClientSeen,
    EngineStatus,
    GroupProgress,
    QueueRange,
    RecoveryReport,
    TopicTotal,
)
from apps.metrics.models import GroupSample, StoreSample, TopicSample

# A full hour, so that slots of all lengths begin here.
START_MS = 1_800_000_000_000


class HandClock:
    """The wall moves when the test says so."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


class NumberEngine:
    """Offsets of queues and progress of groups, as the test puts them in."""

    def __init__(self) -> None:
        self.offsets: dict[str, list[tuple[int, int]]] = {}
        self.progress: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
        self.log_start = 0
        self.written_offset = 0
        self.disk_bytes = 0
        self.free_bytes = 0
        self.left_to_do: list[QueueBacklog] = []
        self.left_in_lites: list[LiteBacklog] = []
        self.joined: list[MemberState] = []
        self.seen: list[ClientSeen] = []
        self.dead: dict[str, list[QueueRange]] = {}
        self.looks = 0

    def backlog(self) -> list[QueueBacklog]:
        self.looks += 1
        return self.left_to_do

    def lite_backlog(self) -> list[LiteBacklog]:
        return self.left_in_lites

    def members(self) -> list[MemberState]:
        return self.joined

    def clients(self) -> list[ClientSeen]:
        return self.seen

    def own_ranges(self, prefix: str) -> dict[str, list[QueueRange]]:
        return {topic: found for topic, found in self.dead.items() if topic.startswith(prefix)}

    def topic_totals(self) -> dict[str, TopicTotal]:
        return {
            topic: TopicTotal(
                sent=sum(end for _, end in queues), held=sum(end - first for first, end in queues)
            )
            for topic, queues in self.offsets.items()
        }

    def group_progress(self) -> list[GroupProgress]:
        return [
            GroupProgress(
                group=group,
                topic=topic,
                queue=queue,
                committed=committed,
                delivered=delivered,
                in_flight=delivered - committed,
                max_offset=max_offset,
            )
            for (group, topic), queues in self.progress.items()
            for queue, (committed, delivered, max_offset) in enumerate(queues)
        ]

    def status(self) -> EngineStatus:
        recovery = RecoveryReport(
            epoch=1,
            clean=True,
            scanned_bytes=0,
            scanned_records=0,
            cut_bytes=0,
            cut_reason="",
            log_end=0,
        )
        return EngineStatus(
            store_id="5f0c8a52",
            epoch=1,
            log_start=self.log_start,
            written_offset=self.written_offset,
            synced_offset=self.written_offset,
            appended_messages=0,
            appended_bytes=0,
            delivered_messages=0,
            settled_messages=0,
            parked=0,
            leases=0,
            syncs=0,
            free_bytes=self.free_bytes,
            disk_bytes=self.disk_bytes,
            recovery=recovery,
        )


def count(name: str, value: int | None) -> dict[str, int | None]:
    """Return the columns of a count that was read once."""
    return {name: value, f"{name}_min": value, f"{name}_max": value}


def rate(name: str, value: float | None) -> dict[str, float | None]:
    """Return the columns of a rate that was read once."""
    columns = {name: value, f"{name}_min": value, f"{name}_max": value}
    return {**columns, f"{name}_samples": 0 if value is None else 1}


def store_sample(
    at_ms: int,
    *,
    resolution_s: int = 5,
    samples: int = 1,
    send_rate: float | None = None,
    consume_rate: float | None = None,
    lag: int | None = None,
) -> StoreSample:
    """Return an unsaved row of the store."""
    return StoreSample(
        resolution_s=resolution_s,
        at=moment(at_ms),
        samples=samples,
        taken_at=moment(at_ms),
        **rate("send_rate", send_rate),
        **rate("consume_rate", consume_rate),
        **count("lag", lag),
    )


def topic_sample(
    at_ms: int,
    topic: str,
    *,
    resolution_s: int = 5,
    samples: int = 1,
    sent: int = 0,
    held: int = 0,
    send_rate: float | None = None,
) -> TopicSample:
    """Return an unsaved row of a topic."""
    return TopicSample(
        resolution_s=resolution_s,
        at=moment(at_ms),
        samples=samples,
        topic=topic,
        **count("sent", sent),
        **count("held", held),
        **rate("send_rate", send_rate),
    )


def group_sample(
    at_ms: int,
    group: str,
    topic: str,
    *,
    resolution_s: int = 5,
    samples: int = 1,
    committed: int = 0,
    lag: int = 0,
    consume_rate: float | None = None,
) -> GroupSample:
    """Return an unsaved row of a group."""
    return GroupSample(
        resolution_s=resolution_s,
        at=moment(at_ms),
        samples=samples,
        group=group,
        topic=topic,
        queue_count=1,
        **count("committed", committed),
        **count("delivered", committed),
        **count("in_flight", 0),
        **count("lag", lag),
        **rate("consume_rate", consume_rate),
    )
