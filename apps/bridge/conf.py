"""Django settings to the engine's configuration. Decides nothing."""

from pathlib import Path

from django.conf import settings

from apps.engine.config import EngineConfig
from apps.engine.failpoints import Failpoints
from apps.engine.types import AckMode

# The lane of the clockwork's own tasks, as the transport of Celery names it: they go on while the
# disk is full.
_TICKS = "celery-q-mqweb"
_PERCENT_MAX = 100


def engine_config() -> EngineConfig:
    """Build the configuration of this process's engine."""
    environment = settings.MQWEB
    return EngineConfig(
        segment_bytes=environment.segment_bytes,
        ack=AckMode(environment.ack),
        flush_interval_ms=environment.flush_interval_ms,
        flush_least_pages=environment.flush_least_pages,
        flush_thorough_ms=environment.flush_thorough_ms,
        flush_timeout_ms=environment.flush_timeout_ms,
        flush_pool_bytes=environment.flush_pool_bytes,
        flush_commit_ms=environment.flush_commit_ms,
        reserve_bytes=environment.reserve_bytes,
        reserve_topics=frozenset({_TICKS}),
        disk_percent_max=environment.disk_percent_max,
        answers_bytes_max=environment.answers_bytes_max,
        index_slots=environment.index_slots,
        index_entries=environment.index_entries,
        read_threads=environment.read_threads,
        member_timeout_ms=environment.member_timeout_ms,
        queue_lock_ms=environment.queue_lock_ms,
        broker_name=environment.broker_name,
        delay_levels_ms=environment.delay_levels_ms,
        delay_ms_max=environment.delay_ms_max,
        transaction_immunity_ms=environment.transaction_immunity_ms,
        transaction_check_ms=environment.transaction_check_ms,
        transaction_checks_max=environment.transaction_checks_max,
        retention_ms=environment.retention_ms,
        retention_bytes=environment.retention_bytes or None,
        retention_hours=environment.retention_hours,
        retention_disk_share=environment.retention_disk_percent / 100,
        # A disk is never more than full.
        retention_force_share=environment.retention_force_percent / 100
        if environment.retention_force_percent < _PERCENT_MAX
        else 2.0,
        compaction_messages_min=environment.compaction_messages_min,
        compaction_new_share=environment.compaction_new_percent / 100,
        compaction_keys_max=environment.compaction_keys_max,
        compaction_tombstone_ms=environment.compaction_tombstone_ms,
        # The format holds IPv4 hosts only; names and IPv6 are written as the loopback address.
        store_host=environment.host if environment.host[:1].isdigit() else "127.0.0.1",
        store_port=environment.port,
    )


def store_path() -> Path:
    """Return the directory the engine owns."""
    path: Path = settings.MQWEB.store
    return path


def failpoints() -> Failpoints:
    """Build the faults that the environment asks for; none by default."""
    return Failpoints(settings.MQWEB.failpoints)
