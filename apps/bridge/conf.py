"""Django settings to the engine's configuration. Decides nothing."""

from pathlib import Path

from django.conf import settings

from apps.engine.config import EngineConfig
from apps.engine.failpoints import Failpoints
from apps.engine.types import AckMode


def engine_config() -> EngineConfig:
    """Build the configuration of this process's engine."""
    environment = settings.MQWEB
    return EngineConfig(
        segment_bytes=environment.segment_bytes,
        ack=AckMode(environment.ack),
        flush_interval_ms=environment.flush_interval_ms,
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
