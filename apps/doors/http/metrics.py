"""/metrics: the engine's readings as Prometheus text. Knows names and labels, counts nothing.

RocketMQ 5's names where one exists; the rest begins with `mqweb_`. RocketMQ's lag figures are per
group and topic, so queues are added up. What is not known has no sample.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

from apps.doors.http.answers import METRICS, Answer
from apps.doors.http.calls import Call, Door
from apps.engine.api import EngineAPI
from apps.engine.clock import SystemClock
from apps.engine.codec.layout import DEAD_LETTER_PREFIX
from apps.engine.delaytypes import DelayLevelState, DelayStatus
from apps.engine.errors import UnknownTopic
from apps.engine.grouptypes import QueueBacklog
from apps.engine.litetypes import LiteBacklog
from apps.engine.retentiontypes import CompactionStatus, RetentionStatus
from apps.engine.transactiontypes import TransactionStatus
from apps.engine.types import PERM_READ, PERM_WRITE, EngineStatus, RoomState
from apps.groups.blocked import blocked_queues

# Topics and groups are named by strangers, and whoever scrapes keeps a history of each series. The
# event loop waits while a metric is written: 25 ms for one of this length.
SERIES_MAX = 5_000
_clock = SystemClock()
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


Sample = tuple[Mapping[str, str], int]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family; `samples` are label values and reading."""

    name: str
    kind: str
    help: str
    samples: Sequence[Sample]


async def metrics(door: Door, call: Call) -> Answer:
    """Answer with every metric there is; others have their turn between two of them."""
    parts: list[str] = []
    for metric in chain(families(call.engine), door.own_metrics(door.in_flight)):
        parts.append(render(metric))
        await asyncio.sleep(0)
    return 200, METRICS, "".join(parts).encode()


def render(metric: Metric) -> str:
    """Return a metric family in Prometheus' text format 0.0.4."""
    lines = [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
    lines += (f"{metric.name}{_labels(labels)} {value}" for labels, value in metric.samples)
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"


def families(engine: EngineAPI) -> Iterator[Metric]:
    """Yield every metric family of one reading, each with its first 5,000 series at most."""
    left_out: list[Sample] = []
    for metric in _all(engine):
        over = len(metric.samples) - SERIES_MAX
        if over <= 0:
            yield metric
            continue
        left_out.append(({"metric": metric.name}, over))
        yield replace(metric, samples=metric.samples[:SERIES_MAX])
    text = "Series that were left out, for there were too many."
    yield Metric("mqweb_series_left_out", "gauge", text, left_out)


def _all(engine: EngineAPI) -> Iterator[Metric]:
    yield from _of_status(engine.status())
    yield from _of_topics(engine)
    backlog = engine.backlog()
    yield from _of_backlog(backlog, engine.lite_backlog())
    yield from _of_queues(backlog)
    yield from _of_stuck(backlog, engine)
    yield from _of_groups(engine)
    yield from _of_delays(engine.delay_status())
    yield from _of_levels(engine.delay_levels().levels)
    yield from _of_transactions(engine.transaction_status())
    yield from _of_dead_letters(engine)


def _known(name: str, text: str, value: int | None) -> Metric:
    return Metric(name, "gauge", text, () if value is None else (({}, value),))


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
        ("mqweb_rebalances_total", "counter", "Assignments made.", status.rebalances),
        (
            "rocketmq_broker_permission",
            "gauge",
            "6 where it is read and written, 4 while sends are refused.",
            PERM_READ if status.room is RoomState.FULL else PERM_READ | PERM_WRITE,
        ),
        ("mqweb_store_free_bytes", "gauge", "Bytes free on the disk.", status.free_bytes),
        (
            "mqweb_store_full",
            "gauge",
            "1 while the disk has no room for sends.",
            int(status.room is RoomState.FULL),
        ),
        ("mqweb_sync_age_ms", "gauge", "Time of the sync under way.", status.sync_ms),
        ("mqweb_pooled_bytes", "gauge", "Bytes a kill would lose.", status.pooled_bytes),
        ("mqweb_store_epoch", "gauge", "Times the store was opened.", status.epoch),
        (
            "mqweb_recovery_cut_bytes",
            "gauge",
            "Torn tail cut when the store was opened.",
            status.recovery.cut_bytes,
        ),
        (
            "mqweb_quarantined_ranges",
            "gauge",
            "Damaged places of the log.",
            status.quarantined_ranges,
        ),
        (
            "mqweb_unreadable_messages",
            "gauge",
            "Messages in damaged places of the log.",
            status.unreadable_messages,
        ),
        (
            "mqweb_damaged_queue_files",
            "gauge",
            "Files of consume queues that are yet to be made again from the log.",
            status.damaged_queue_files,
        ),
    ):
        yield _one(name, kind, text, value)
    if status.retention is not None:
        yield from _of_retention(status.retention, now_ms=_clock.wall_ms())
    if status.compaction is not None:
        yield from _of_compaction(status.compaction)


def _of_retention(status: RetentionStatus, *, now_ms: int) -> Iterator[Metric]:
    for name, kind, text, value in (
        (
            "mqweb_store_used_percent",
            "gauge",
            "Share of the disk that is used.",
            round(100 * status.disk_used),
        ),
        (
            "mqweb_retention_deleted_bytes_total",
            "counter",
            "Bytes of the log deleted.",
            status.deleted_bytes,
        ),
        (
            "mqweb_retention_lost_messages",
            "gauge",
            "Messages deleted that a group had not settled.",
            status.lost_messages,
        ),
    ):
        yield _one(name, kind, text, value)
    oldest = "When the oldest message that is kept was stored, ms."
    yield _known("mqweb_store_oldest_timestamp_ms", oldest, status.oldest_ms)
    text = "Age of the oldest message that is kept, ms."
    kept_ms = None if status.oldest_ms is None else max(0, now_ms - status.oldest_ms)
    yield _known("rocketmq_storage_message_reserve_time", text, kept_ms)
    text = "Bytes that are due to be deleted and that somebody needs."
    blocked = [({"holder": block.holder}, block.size_bytes) for block in status.blocked_by]
    yield Metric("mqweb_retention_blocked_bytes", "gauge", text, blocked)


def _of_compaction(status: CompactionStatus) -> Iterator[Metric]:
    for name, text, value in (
        ("rounds", "Rounds of compaction.", status.rounds),
        ("failed_rounds", "Rounds that were given up.", status.failed_rounds),
        ("messages_before", "Messages that rounds have read.", status.messages_before),
        ("messages_after", "Messages that rounds have written.", status.messages_after),
        ("bytes_before", "Bytes of messages that rounds have read.", status.bytes_before),
        ("bytes_after", "Bytes that rounds have written.", status.bytes_after),
    ):
        yield _one(f"mqweb_compaction_{name}_total", "counter", text, value)
    text = "Places of kept messages that are not what was written, found since the start."
    yield _one("mqweb_compaction_damaged", "gauge", text, status.damaged)


def _of_topics(engine: EngineAPI) -> Iterator[Metric]:
    topics = sorted(engine.catalog.topics)
    yield _one("rocketmq_topic_number", "gauge", "Topics.", len(topics))
    low: list[Sample] = []
    high: list[Sample] = []
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
    in_lites = sorted(engine.lite_totals().items())
    came: list[Sample] = [({"topic": parent}, found.came) for parent, found in in_lites]
    held: list[Sample] = [({"topic": parent}, found.held) for parent, found in in_lites]
    text = "Messages that came to the lite topics of a parent."
    yield Metric("mqweb_lite_messages_in_total", "counter", text, came)
    text = "Messages that the lite topics of a parent hold."
    yield Metric("mqweb_lite_held_messages", "gauge", text, held)


def _of_backlog(backlog: Sequence[QueueBacklog], lites: Sequence[LiteBacklog]) -> Iterator[Metric]:
    """Yield RocketMQ's figures of a group in a topic; rows come by group, topic and queue.

    Lite topics are told once for their parent, whose own queues hold nothing.
    """
    lag: list[Sample] = []
    in_flight: list[Sample] = []
    ready: list[Sample] = []
    latency_ms: list[Sample] = []
    behind: list[Sample] = []
    parents = {(row.group, row.topic) for row in lites}
    groups = {row.group for row in backlog} | {row.group for row in lites}
    for (group, topic), grouped in groupby(backlog, key=lambda row: (row.group, row.topic)):
        if (group, topic) in parents:
            continue
        rows = list(grouped)
        labels = {"consumer_group": group, "topic": topic}
        lag.append((labels, sum(row.max_offset - row.committed for row in rows)))
        in_flight.append((labels, sum(row.in_flight for row in rows)))
        ready.append((labels, sum(row.max_offset - row.delivered for row in rows)))
        ages_ms = [row.oldest_age_ms for row in rows if row.oldest_age_ms is not None]
        if ages_ms or lag[-1][1] == 0:
            latency_ms.append((labels, max(ages_ms, default=0)))
    for row in lites:
        labels = {"consumer_group": row.group, "topic": row.topic}
        for samples, value in (
            (lag, row.lag),
            (in_flight, row.in_flight),
            (ready, row.ready),
            (latency_ms, 0 if row.lag == 0 else row.oldest_age_ms),
            (behind, row.topics_behind),
        ):
            if value is not None:
                samples.append((labels, value))
    yield _one("rocketmq_consumer_group_number", "gauge", "Consumer groups.", len(groups))
    for name, text, samples in (
        ("rocketmq_consumer_lag_messages", "Messages not yet done for the group.", lag),
        ("rocketmq_consumer_inflight_messages", "Messages out and not yet done.", in_flight),
        ("rocketmq_consumer_ready_messages", "Messages not yet handed out to the group.", ready),
        ("rocketmq_consumer_lag_latency", "Age of the oldest message not done, ms.", latency_ms),
        ("mqweb_lite_topics_behind", "Lite topics with messages not yet done.", behind),
    ):
        yield Metric(name, "gauge", text, samples)


def _of_queues(backlog: Sequence[QueueBacklog]) -> Iterator[Metric]:
    lag: list[Sample] = []
    ages_ms: list[Sample] = []
    for row in backlog:
        labels = {"consumer_group": row.group, "topic": row.topic, "queue": str(row.queue)}
        lag.append((labels, row.max_offset - row.committed))
        if row.oldest_age_ms is not None:
            ages_ms.append((labels, row.oldest_age_ms))
    yield Metric("mqweb_queue_lag_messages", "gauge", "Messages not yet done for the group.", lag)
    text = "Age of the oldest message not done for the group."
    yield Metric("mqweb_queue_oldest_age_ms", "gauge", text, ages_ms)


def _of_stuck(backlog: Sequence[QueueBacklog], engine: EngineAPI) -> Iterator[Metric]:
    """Yield how many queues of a group do not get on, and how often locks were refused."""
    refusals: Counter[str] = Counter()
    blocked: Counter[str] = Counter()
    for row in backlog:
        refusals[row.group] += row.refusals
        blocked[row.group] += 0
    now_ms = _clock.wall_ms()
    blocked.update(row.group for row in blocked_queues(backlog, engine.members(), now_ms=now_ms))
    for name, kind, text, counts in (
        ("mqweb_blocked_queues", "gauge", "Queues that do not get on.", blocked),
        ("mqweb_lock_refusals_total", "counter", "Queue locks refused.", refusals),
    ):
        samples = [({"consumer_group": group}, count) for group, count in sorted(counts.items())]
        yield Metric(name, kind, text, samples)


def _of_groups(engine: EngineAPI) -> Iterator[Metric]:
    members = Counter(member.group for member in engine.members())
    held = Counter(lock.group for lock in engine.queue_locks() if lock.expires_in_ms > 0)
    for name, text, counts in (
        ("rocketmq_consumer_connections", "Members that keep a heartbeat.", members),
        ("mqweb_queue_locks", "Queue locks held.", held),
    ):
        samples = [({"consumer_group": group}, count) for group, count in sorted(counts.items())]
        yield Metric(name, "gauge", text, samples)


def _of_delays(status: DelayStatus) -> Iterator[Metric]:
    for name, kind, text, value in (
        (
            "rocketmq_timing_messages",
            "gauge",
            "Messages with a delay of their own.",
            status.pending,
        ),
        ("mqweb_delayed_delivered_total", "counter", "Of these, delivered.", status.delivered),
        (
            "rocketmq_timer_dequeue_total",
            "counter",
            "Of these, taken out: delivered, in time or before it.",
            status.delivered + status.sent_now,
        ),
        ("mqweb_delayed_cancelled_total", "counter", "Of these, cancelled.", status.cancelled),
        ("mqweb_delayed_sent_now_total", "counter", "Delivered before time.", status.sent_now),
        (
            "mqweb_delayed_without_topic_total",
            "counter",
            "Due messages whose topic was deleted.",
            status.without_topic,
        ),
        (
            "mqweb_delay_clock_held_ms",
            "gauge",
            "By how much deliveries are held back after the clock jumped ahead.",
            status.clock_held_ms,
        ),
    ):
        yield _one(name, kind, text, value)
    text = "How late the last message with a delay of its own was."
    yield _known("mqweb_delay_lateness_ms", text, status.late_ms)
    samples = [
        ({"within_s": "+Inf" if seconds is None else str(seconds)}, count)
        for seconds, count in status.histogram
    ]
    text = "Delayed messages that are due within so many seconds, and not within fewer."
    yield Metric("mqweb_delayed_due_messages", "gauge", text, samples)


def _of_levels(levels: Sequence[DelayLevelState]) -> Iterator[Metric]:
    pending = [({"level": str(row.level)}, row.max_offset - row.delivered) for row in levels]
    late_ms = [
        ({"level": str(row.level)}, row.late_ms) for row in levels if row.late_ms is not None
    ]
    yield Metric("mqweb_delay_level_messages", "gauge", "Messages in a delay level.", pending)
    text = "How late the last message of a delay level was."
    yield Metric("mqweb_delay_level_lateness_ms", "gauge", text, late_ms)


def _of_transactions(status: TransactionStatus) -> Iterator[Metric]:
    for name, kind, text, value in (
        ("rocketmq_half_messages", "gauge", "Undecided transactions.", status.pending),
        ("rocketmq_commit_messages_total", "counter", "Committed.", status.committed),
        ("rocketmq_rollback_messages_total", "counter", "Rolled back.", status.rolled_back),
        ("mqweb_transactions_begun_total", "counter", "Begun.", status.begun),
        ("mqweb_transactions_given_up_total", "counter", "Given up.", status.given_up),
        ("mqweb_transaction_checks_total", "counter", "Checks handed out.", status.checks),
        (
            "mqweb_given_up_messages",
            "gauge",
            "Given-up messages that nobody sent after all.",
            status.given_up_waiting,
        ),
    ):
        yield _one(name, kind, text, value)


def _of_dead_letters(engine: EngineAPI) -> Iterator[Metric]:
    kept: list[Sample] = []
    ever: list[Sample] = []
    for topic, ranges in sorted(engine.own_ranges(DEAD_LETTER_PREFIX).items()):
        labels = {"consumer_group": topic.removeprefix(DEAD_LETTER_PREFIX)}
        kept.append((labels, sum(found.max_offset - found.min_offset for found in ranges)))
        ever.append((labels, sum(found.max_offset for found in ranges)))
    yield Metric("mqweb_dead_letters", "gauge", "Dead letters in the log.", kept)
    yield Metric("rocketmq_send_to_dlq_messages_total", "counter", "Dead letters ever.", ever)
