"""How one engine is set up. One frozen value, checked once; knows no environment variables."""

from dataclasses import dataclass

from apps.engine import limits
from apps.engine.types import AckMode


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
    reserve_bytes: int = 64 * limits.MIB
    """Sends are refused when less than this would be left on the disk."""
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
        if self.member_timeout_ms < 3 or self.queue_lock_ms < 1 or self.disconnect_grace_ms < 0:
            raise ValueError("members and locks need a time to live")
        if not 1 <= len(self.delay_levels_ms) <= limits.DELAY_LEVELS_MAX:
            raise ValueError(f"there are 1 to {limits.DELAY_LEVELS_MAX} delay levels")
        if min(self.delay_levels_ms) < 1 or self.delay_ms_max < 1:
            raise ValueError("a delay is at least 1 ms")
        if self.transaction_check_ms < 1 or self.transaction_checks_max < 1:
            raise ValueError("a transaction is checked at least once, after at least 1 ms")
