"""/metrics: the engine's readings as Prometheus text. Knows names and labels, counts nothing.

RocketMQ 5's names where one exists; the rest begins with `mqweb_`. RocketMQ's lag figures are per
group and topic, so queues are added up.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from apps.doors.http.answers import METRICS, Answer
from apps.doors.http.calls import Call, Door
from apps.engine.api import EngineAPI
from apps.engine.errors import UnknownTopic
from apps.engine.types import EngineStatus, GroupProgress

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family; `samples` are label values and reading."""

    name: str
    kind: str
    help: str
    samples: Iterable[tuple[Mapping[str, str], int]]


async def metrics(_door: Door, call: Call) -> Answer:
    """Answer with every metric of the engine."""
    return 200, METRICS, render(families(call.engine)).encode()


def render(metrics: Iterable[Metric]) -> str:
    """Return metric families in Prometheus' text format 0.0.4."""
    lines: list[str] = []
    for metric in metrics:
        lines += (f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}")
        lines += (f"{metric.name}{_labels(labels)} {value}" for labels, value in metric.samples)
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"


def families(engine: EngineAPI) -> Iterator[Metric]:
    """Yield every metric family of one reading."""
    yield from _of_status(engine.status())
    yield from _of_topics(engine)
    yield from _of_groups(engine.group_progress())


def _one(name: str, kind: str, text: str, value: int) -> Metric:
    return Metric(name, kind, text, (({}, value),))


def _of_status(status: EngineStatus) -> Iterator[Metric]:
    for name, kind, text, value in (
        ("rocketmq_messages_in_total", "counter", "Messages stored.", status.appended_messages),
        ("rocketmq_throughput_in_total", "counter", "Bytes stored.", status.appended_bytes),
        ("rocketmq_messages_out_total", "counter", "Messages out.", status.delivered_messages),
        (
            "rocketmq_storage_size",
            "gauge",
            "Bytes of the commit log.",
            status.written_offset - status.log_start,
        ),
        (
            "rocketmq_storage_flush_behind_bytes",
            "gauge",
            "Bytes written and not yet synced.",
            status.written_offset - status.synced_offset,
        ),
        ("mqweb_settled_messages_total", "counter", "Messages settled.", status.settled_messages),
        ("mqweb_syncs_total", "counter", "Syncs of the log.", status.syncs),
        ("mqweb_parked_requests", "gauge", "Requests waiting for a message.", status.parked),
        ("mqweb_leases", "gauge", "Leases not settled.", status.leases),
        ("mqweb_store_free_bytes", "gauge", "Bytes free on the disk.", status.free_bytes),
        ("mqweb_store_epoch", "gauge", "Times the store was opened.", status.epoch),
        (
            "mqweb_recovery_cut_bytes",
            "gauge",
            "Torn tail cut when the store was opened.",
            status.recovery.cut_bytes,
        ),
    ):
        yield _one(name, kind, text, value)


def _of_topics(engine: EngineAPI) -> Iterator[Metric]:
    topics = sorted(engine.catalog.topics)
    yield _one("rocketmq_topic_number", "gauge", "Topics.", len(topics))
    low: list[tuple[Mapping[str, str], int]] = []
    high: list[tuple[Mapping[str, str], int]] = []
    for topic in topics:
        try:
            ranges = engine.queue_ranges(topic)
        except UnknownTopic:
            # Deleted since the names were read.
            continue
        for found in ranges:
            labels = {"topic": found.topic, "queue": str(found.queue)}
            low.append((labels, found.min_offset))
            high.append((labels, found.max_offset))
    yield Metric("mqweb_queue_min_offset", "gauge", "First queue offset kept.", low)
    yield Metric("mqweb_queue_max_offset", "gauge", "Queue offset of the next message.", high)


def _of_groups(progress: list[GroupProgress]) -> Iterator[Metric]:
    sums: dict[tuple[str, str], list[int]] = {}
    for row in progress:
        found = sums.setdefault((row.group, row.topic), [0, 0, 0])
        found[0] += row.max_offset - row.committed
        found[1] += row.in_flight
        found[2] += row.max_offset - row.delivered
    groups = {group for group, _topic in sums}
    yield _one("rocketmq_consumer_group_number", "gauge", "Consumer groups.", len(groups))
    for place, (name, text) in enumerate(
        (
            ("rocketmq_consumer_lag_messages", "Messages not yet done for the group."),
            ("rocketmq_consumer_inflight_messages", "Messages handed out and not settled."),
            ("rocketmq_consumer_ready_messages", "Messages not yet handed out to the group."),
        )
    ):
        samples = [
            ({"consumer_group": group, "topic": topic}, figures[place])
            for (group, topic), figures in sorted(sums.items())
        ]
        yield Metric(name, "gauge", text, samples)
