"""How one engine is set up. One frozen value, checked once; knows no environment variables."""

from dataclasses import dataclass

from apps.engine import limits
from apps.engine.types import AckMode

HOURS_OF_DAY = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Settings of a store, units in the names; defaults are RocketMQ's where it has one."""

    segment_bytes: int = limits.GIB
    consume_queue_file_entries: int = 300_000
    index_slots: int = 500_000
    """Hash slots of an index file, 4 bytes of memory each; a tenth of RocketMQ's, as entries."""
    index_entries: int = 2_000_000
    """Entries of an index file, the unused first one counted, as RocketMQ counts them."""
    ack: AckMode = AckMode.SYNC
    """What acknowledgements and offset commits wait for, and sends that do not say."""
    flush_interval_ms: int = 500
    """How often what nobody waits for is synced."""
    flush_least_pages: int = 0
    """It is not synced for less than so many pages of 4 KiB. RocketMQ's is 4, ours keeps a promise:
    what a power cut may take of `async` is no older than the interval."""
    flush_thorough_ms: int = 10_000
    """Fewer pages are synced when the last sync is so long ago."""
    flush_timeout_ms: int = 5_000
    """Who waits for a sync for longer is told that the message is stored and not confirmed."""
    flush_pool_bytes: int = 0
    """Gather writes in a pool of this size; a kill of the process loses what lies there. 0: off."""
    flush_commit_ms: int = 200
    """How often the pool is committed to the page cache, beside being full and before syncs."""
    checkpoint_interval_ms: int = 10_000
    dispatch_behind_bytes_max: int = 256 * limits.MIB
    """A checkpoint is taken early when this much log would have to be dispatched again."""
    body_bytes_max: int = limits.BODY_BYTES_MAX
    properties_bytes_max: int = limits.PROPERTIES_BYTES_MAX
    batch_bytes_max: int = limits.BATCH_BYTES_MAX
    read_threads: int = 4
    """Threads that wait for the disk when a read is not in the page cache."""
    parked_max: int = 10_000
    member_timeout_ms: int = 30_000
    """A member that is silent for longer is none any more; it is told to ask three times as often.
    """
    disconnect_grace_ms: int = 5_000
    """How long a member stays whose connection broke while it waited."""
    queue_lock_ms: int = 60_000
    """How long a queue's lock is valid after its last renewal; RocketMQ's 60 s."""
    broker_name: str = "mqweb"
    """The broker of every queue, as strategies know it; a room goes in front: `room@name`."""
    delay_levels_ms: tuple[int, ...] = limits.DELAY_LEVELS_MS
    """How long each delay level waits, from level 1 on."""
    delay_ms_max: int = 366 * 24 * 3_600_000
    """The longest delay a message may ask for."""
    transaction_immunity_ms: int = 6_000
    """How old a half message must be for its first check; RocketMQ's `transactionTimeOut`."""
    transaction_check_ms: int = 60_000
    """How long after a check the next one is due."""
    transaction_checks_max: int = 15
    """A half message that was checked so often, and is still undecided, is given up."""
    transaction_ms_max: int = 72 * 3_600_000
    """An undecided half message that is older is given up; RocketMQ's retention."""
    retention_ms: int = 72 * 3_600_000
    """Segments whose messages are all older may be deleted; RocketMQ's `fileReservedTime`."""
    retention_bytes: int | None = None
    """The oldest segments go while the log is longer than this; None is without limit."""
    retention_hours: tuple[int, ...] = (4,)
    """Hours of the day, UTC, in which age alone is a reason; RocketMQ's `deleteWhen`."""
    retention_disk_share: float = 1.0
    """From this share of the disk on, age is a reason at any hour; the product has 0.75."""
    retention_force_share: float = 2.0
    """From this share of the disk on, the oldest segments go whatever their age; above 1 never. The
    product has RocketMQ's 0.85.
    """
    retention_look_ms: int = 10_000
    """How often retention looks whether something may go."""
    compaction_look_ms: int = 10_000
    """How often it is looked whether a compacted topic is worth a round."""
    compaction_messages_min: int = 1_000
    """A queue has a round when it got so many messages, and the share of new ones below."""
    compaction_new_share: float = 1 / 3
    """A round writes all that is kept anew, so so much of kept and new together is to be new: each
    message is written at most 1 / share times for each that is new. Kafka's default is 0.5."""
    compaction_keys_max: int = 500_000
    """One round takes up to so many messages of the log, 100 bytes of memory each."""
    compaction_tombstone_ms: int = 24 * 3_600_000
    """How long a message without a body is kept for readers to see that its key is gone."""
    reserve_bytes: int = 64 * limits.MIB
    """Sends are refused when less than this would be left on the disk."""
    disk_percent_max: int = 100
    """Sends are refused when more of the disk is used. 100: off; the product has RocketMQ's 90."""
    reserve_topics: frozenset[str] = frozenset()
    """Topics whose messages may use the reserve, as acknowledgements may: the product's own work.
    """
    answers_bytes_max: int = 256 * limits.MIB
    """Messages that were read for answers and are not sent yet; more readers are told to wait."""
    store_host: str = "127.0.0.1"
    store_port: int = 8000

    def __post_init__(self) -> None:
        """Raise ValueError where settings contradict each other."""
        if self.segment_bytes < 2 * self.batch_bytes_max:
            raise ValueError("segment_bytes must hold two batches of batch_bytes_max")
        if self.body_bytes_max > self.batch_bytes_max:
            raise ValueError("body_bytes_max must not exceed batch_bytes_max")
        if not (1 <= self.index_slots < 1 << 31 and 2 <= self.index_entries < 1 << 31):
            raise ValueError("an index file has at least one slot and room for one entry")
        if self.flush_interval_ms < 1 or self.checkpoint_interval_ms < 1:
            raise ValueError("intervals must be at least 1 ms")
        if self.flush_least_pages < 0 or self.flush_thorough_ms < 1 or self.flush_timeout_ms < 1:
            raise ValueError("pages are not negative, times of a flush at least 1 ms")
        if self.flush_pool_bytes < 0 or self.flush_commit_ms < 1:
            raise ValueError("the pool is not negative, its commits at least 1 ms apart")
        if self.answers_bytes_max < limits.FETCH_BYTES_MAX:
            raise ValueError("answers_bytes_max must hold the largest answer")
        if self.reserve_bytes < 0 or not 1 <= self.disk_percent_max <= 100:
            raise ValueError("the reserve is not negative, the disk's mark from 1 to 100 percent")
        if self.member_timeout_ms < 3 or self.queue_lock_ms < 1 or self.disconnect_grace_ms < 0:
            raise ValueError("members and locks need a time to live")
        if not 1 <= len(self.delay_levels_ms) <= limits.DELAY_LEVELS_MAX:
            raise ValueError(f"there are 1 to {limits.DELAY_LEVELS_MAX} delay levels")
        if min(self.delay_levels_ms) < 1 or self.delay_ms_max < 1:
            raise ValueError("a delay is at least 1 ms")
        if self.retention_ms < 1 or self.retention_look_ms < 1:
            raise ValueError("what is sent is kept for at least 1 ms")
        if self.compaction_look_ms < 1 or self.compaction_tombstone_ms < 0:
            raise ValueError("compaction looks after at least 1 ms, tombstones are not negative")
        if not 0 <= self.compaction_new_share < 1:
            raise ValueError("a round of compaction waits for a share of new messages below 1")
        if self.compaction_messages_min < 1 or self.compaction_keys_max < 1:
            raise ValueError("a round of compaction is of at least one message")
        if not all(0 <= hour < HOURS_OF_DAY for hour in self.retention_hours):
            raise ValueError("hours of a day are 0 to 23")
        if self.transaction_check_ms < 1 or self.transaction_checks_max < 1:
            raise ValueError("a transaction is checked at least once, after at least 1 ms")
