"""The one place that reads environment variables. Knows names, types and limits; not Django."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from apps.core.proxies import Network
from apps.engine import limits
from apps.engine.failpoints import Failpoints
from mqweb import envaccess, envalerts, envgrpc, envnames, envspark
from mqweb.envvalues import (
    checked,
    choice,
    duration_ms,
    hours,
    integer,
    url,
)
from mqweb.variables import Refused, Variable

__all__ = [
    "LOOPBACK_NAMES",
    "VARIABLES",
    "Environment",
    "Refused",
    "Variable",
    "is_loopback",
    "read",
]

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


VARIABLES = (
    Variable(name="MQWEB_DATA", default="./data", meaning="directory of everything that is kept"),
    Variable(name="MQWEB_HOST", default="127.0.0.1", meaning="address to listen on"),
    Variable(name="MQWEB_PORT", default="8000", meaning="TCP port to listen on"),
    *envgrpc.VARIABLES,
    Variable(name="DATABASE_URL", default="", meaning="PostgreSQL to use instead of our own"),
    Variable(name="REDIS_URL", default="", meaning="Redis as channel layer instead of memory"),
    Variable(name="CELERY_BROKER_URL", default="", meaning="Celery's transport instead of our own"),
    Variable(
        name="MQWEB_WORKER_PROCESSES", default="2", meaning="for tasks; 0: no worker, no beat"
    ),
    Variable(name="MQWEB_AUTH", default="off", meaning="off, for loopback only; or on"),
    Variable(name="MQWEB_HTTPS", default="off", meaning="whether a server with TLS is in front"),
    *envaccess.VARIABLES,
    Variable(name="MQWEB_ACK", default="sync", meaning="sync or async, for sends that do not say"),
    Variable(name="MQWEB_FLUSH_INTERVAL_MS", default="500", meaning="pace of syncs in async mode"),
    Variable(name="MQWEB_FLUSH_LEAST_PAGES", default="0", meaning="no sync in async mode for less"),
    Variable(
        name="MQWEB_FLUSH_THOROUGH_MS", default="10000", meaning="time after which less will do"
    ),
    Variable(name="MQWEB_FLUSH_TIMEOUT_MS", default="5000", meaning="longest wait for a sync"),
    Variable(
        name="MQWEB_FLUSH_POOL_BYTES",
        default="0",
        meaning="gather writes in memory, which kill -9 loses; 0: off",
    ),
    Variable(name="MQWEB_FLUSH_COMMIT_MS", default="200", meaning="pace of the pool's commits"),
    Variable(
        name="MQWEB_RESERVE_BYTES",
        default=str(64 * limits.MIB),
        meaning="of the disk, kept from sends",
    ),
    Variable(name="MQWEB_DISK_PERCENT_MAX", default="90", meaning="sends stop when more is used"),
    Variable(
        name="MQWEB_REQUESTS_BYTES_MAX",
        default=str(256 * limits.MIB),
        meaning="bodies of requests in memory, all together",
    ),
    Variable(
        name="MQWEB_ANSWERS_BYTES_MAX",
        default=str(256 * limits.MIB),
        meaning="messages of answers in memory, all together",
    ),
    Variable(
        name="MQWEB_CLIENT_REQUESTS_PER_S", default="0", meaning="of one client; 0: any number"
    ),
    Variable(
        name="MQWEB_CLIENT_BYTES_PER_S", default="0", meaning="bodies of one client; 0: any number"
    ),
    Variable(
        name="MQWEB_CLIENT_REQUESTS_MAX",
        default="0",
        meaning="requests of one client under way; 0: any number",
    ),
    Variable(
        name="MQWEB_CLIENT_CONNECTIONS_MAX",
        default="0",
        meaning="connections of one address; 0: any number",
    ),
    Variable(name="MQWEB_CONNECTIONS_MAX", default="10000", meaning="connections, all together"),
    Variable(name="MQWEB_HEAD_TIMEOUT_MS", default="20000", meaning="for the head of a request"),
    Variable(name="MQWEB_BODY_TIMEOUT_MS", default="20000", meaning="for a body that hardly comes"),
    Variable(
        name="MQWEB_SEND_TIMEOUT_MS", default="20000", meaning="for an answer that nobody reads"
    ),
    Variable(name="MQWEB_SEGMENT_BYTES", default=str(limits.GIB), meaning="size of log segments"),
    Variable(name="MQWEB_INDEX_SLOTS", default="500000", meaning="hash slots of an index file"),
    Variable(name="MQWEB_INDEX_ENTRIES", default="2000000", meaning="entries of an index file"),
    Variable(name="MQWEB_READ_THREADS", default="4", meaning="workers for reads from the disk"),
    Variable(
        name="MQWEB_MEMBER_TIMEOUT_MS", default="30000", meaning="silence that ends a membership"
    ),
    Variable(name="MQWEB_AUDIT_KEEP_DAYS", default="0", meaning="age of audit entries; 0: all"),
    Variable(name="MQWEB_QUEUE_LOCK_MS", default="60000", meaning="life of a lock not renewed"),
    Variable(name="MQWEB_BROKER_NAME", default="mqweb", meaning="name, or room@name, of queues"),
    Variable(
        name="MQWEB_DELAY_LEVELS",
        default="1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        meaning="how long each delay level waits",
    ),
    Variable(name="MQWEB_DELAY_MAX", default="366d", meaning="longest delay of a message"),
    Variable(
        name="MQWEB_TRANSACTION_IMMUNITY_MS",
        default="6000",
        meaning="age of a half message at its first check",
    ),
    Variable(
        name="MQWEB_TRANSACTION_CHECK_MS", default="60000", meaning="from a check to the next one"
    ),
    Variable(
        name="MQWEB_TRANSACTION_CHECKS_MAX",
        default="15",
        meaning="checks before a half message is given up",
    ),
    Variable(name="MQWEB_RETENTION", default="72h", meaning="how long messages are kept"),
    Variable(name="MQWEB_RETENTION_BYTES", default="0", meaning="longest log; 0: any length"),
    Variable(
        name="MQWEB_RETENTION_HOURS", default="04", meaning="hours, UTC, to delete what is too old"
    ),
    Variable(
        name="MQWEB_RETENTION_DISK_PERCENT",
        default="75",
        meaning="use of the disk from which on what is too old goes at any hour",
    ),
    Variable(
        name="MQWEB_RETENTION_FORCE_PERCENT",
        default="85",
        meaning="use of the disk from which on the oldest goes whatever its age; 100: never",
    ),
    Variable(
        name="MQWEB_COMPACTION_MESSAGES_MIN",
        default="1000",
        meaning="new messages a queue of a compacted topic has a round for",
    ),
    Variable(
        name="MQWEB_COMPACTION_NEW_PERCENT",
        default="33",
        meaning="share of new messages among kept and new that a round waits for",
    ),
    Variable(
        name="MQWEB_COMPACTION_KEYS_MAX", default="500000", meaning="new messages a round may take"
    ),
    Variable(
        name="MQWEB_COMPACTION_TOMBSTONE",
        default="24h",
        meaning="how long messages without a body stay in compacted topics",
    ),
    *envspark.VARIABLES,
    *envalerts.VARIABLES,
    Variable(name="MQWEB_SECRET_KEY", default="", meaning="Django's key instead of a kept one"),
    Variable(name="MQWEB_ALLOWED_HOSTS", default="", meaning="host names answered to, by comma"),
    Variable(name="MQWEB_FAILPOINTS", default="", meaning="faults to provoke, in tests"),
    Variable(name="MQWEB_LOG_LEVEL", default="INFO", meaning="lowest level that is logged"),
)
# What listens on every address is reached on loopback.
_OF_ALL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
_DEFAULTS = {variable.name: variable.default for variable in VARIABLES}

_LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
# 50 characters is what Django's own check asks for.
_SECRET_KEY_CHARACTERS_MIN = 50
# Two batches of the largest size must fit; above 2 GiB positions leave the format's 32 bits.
_SEGMENT_BYTES_MIN = 2 * limits.BATCH_BYTES_MAX
_SEGMENT_BYTES_MAX = 2 * limits.GIB - 4096
_FLUSH_INTERVAL_MS_MAX = 60_000
_FLUSH_LEAST_PAGES_MAX = 65_536
_FLUSH_MS_MAX = 600_000
# A frame that is larger than the pool passes it; one of GiBs is not what it is for.
_FLUSH_POOL_BYTES_MAX = limits.GIB
# A row of the log takes 100 bytes of memory in a round; fewer make rounds of nothing but copying.
_COMPACTION_KEYS_MIN = 1_000
_COMPACTION_MESSAGES_MAX = 100_000_000
_RESERVE_BYTES_MAX = 1024 * limits.GIB
# The largest request and the largest answer must find room.
_IN_MEMORY_BYTES_MIN = 2 * limits.BATCH_BYTES_MAX
_IN_MEMORY_BYTES_MAX = 1024 * limits.GIB
# As many digits as are read.
_RATE_MAX = 999_999_999_999
_CONNECTIONS_MAX = 1_000_000
_STANDSTILL_MS_MAX = 600_000
# RocketMQ's own sizes fit four times: 80 MB of slots are kept in memory then.
_INDEX_SLOTS_MIN = 1_000
_INDEX_SLOTS_MAX = 20_000_000
_INDEX_ENTRIES_MIN = 1_000
_INDEX_ENTRIES_MAX = 80_000_000
_READ_THREADS_MAX = 64
_WORKER_PROCESSES_MAX = 256
# A member asks three times in its time-out, and a request takes a while.
_MEMBER_TIMEOUT_MS_MIN = 1_000
_MEMBER_TIMEOUT_MS_MAX = 600_000
_QUEUE_LOCK_MS_MIN = 1_000
_QUEUE_LOCK_MS_MAX = 3_600_000
_TRANSACTION_IMMUNITY_MS_MAX = 86_400_000
# A check goes to a person's program: ten a second is more than any needs.
_TRANSACTION_CHECK_MS_MIN = 100
_TRANSACTION_CHECK_MS_MAX = 86_400_000
_TRANSACTION_CHECKS_MAX = 1_000
# As many digits as are read.
_RETENTION_BYTES_MAX = 999_999_999_999


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Every variable, parsed. `None` and the empty tuple mean "not set"."""

    data: Path
    host: str
    port: int
    grpc: envgrpc.GrpcPorts
    database_url: str | None
    redis_url: str | None
    celery_broker_url: str
    worker_processes: int
    auth: str
    https: bool
    trusted_proxies: tuple[Network, ...]
    second_factor: frozenset[str]
    session: envaccess.SessionTimes
    ack: str
    flush_interval_ms: int
    flush_least_pages: int
    flush_thorough_ms: int
    flush_timeout_ms: int
    flush_pool_bytes: int
    flush_commit_ms: int
    reserve_bytes: int
    disk_percent_max: int
    requests_bytes_max: int
    answers_bytes_max: int
    client_requests_per_s: int
    client_bytes_per_s: int
    client_requests_max: int
    client_connections_max: int
    connections_max: int
    head_timeout_ms: int
    body_timeout_ms: int
    send_timeout_ms: int
    segment_bytes: int
    index_slots: int
    index_entries: int
    read_threads: int
    member_timeout_ms: int
    audit_keep_days: int
    queue_lock_ms: int
    broker_name: str
    delay_levels_ms: tuple[int, ...]
    delay_ms_max: int
    transaction_immunity_ms: int
    transaction_check_ms: int
    transaction_checks_max: int
    retention_ms: int
    retention_bytes: int
    retention_hours: tuple[int, ...]
    retention_disk_percent: int
    retention_force_percent: int
    compaction_messages_min: int
    compaction_new_percent: int
    compaction_keys_max: int
    compaction_tombstone_ms: int
    pipelines: envspark.Pipelines
    telling: envalerts.Telling
    secret_key: str | None
    allowed_hosts: tuple[str, ...]
    failpoints: str
    log_level: str

    @property
    def store(self) -> Path:
        """Return the directory the engine owns."""
        return self.data / "store"

    @property
    def is_own_celery_broker(self) -> bool:
        """Say whether Celery's messages go through this installation."""
        return self.celery_broker_url == _own_broker_url(self.host, self.port)

    @property
    def own_host(self) -> str:
        """Return the address that processes of this machine reach the broker by."""
        return _own_host(self.host)

    def in_force(self) -> list[tuple[str, str]]:
        """Return each variable's name and what holds, secrets among it; empty is "not set"."""
        return list(envnames.named(self, _DEFAULTS))


def read(environ: Mapping[str, str]) -> Environment:
    """Parse the variables; raise Refused for the first one that cannot be served.

    A variable that is set to the empty string counts as unset.
    """
    values = {name: environ.get(name, "") or default for name, default in _DEFAULTS.items()}
    data = Path(values["MQWEB_DATA"]).expanduser().resolve()
    host = _host(values["MQWEB_HOST"])
    port = integer(values, "MQWEB_PORT", 1, 65_535)
    return Environment(
        data=data,
        host=host,
        port=port,
        grpc=envgrpc.read(values),
        database_url=url(values, "DATABASE_URL", ("postgres", "postgresql")),
        redis_url=url(values, "REDIS_URL", ("redis", "rediss", "unix")),
        celery_broker_url=_celery_broker_url(values, host, port),
        worker_processes=integer(values, "MQWEB_WORKER_PROCESSES", 0, _WORKER_PROCESSES_MAX),
        auth=_auth(values["MQWEB_AUTH"], host, values["MQWEB_SECRET_KEY"]),
        https=choice(values, "MQWEB_HTTPS", ("off", "on")) == "on",
        trusted_proxies=envaccess.proxies(values),
        second_factor=envaccess.second_factor(values),
        session=envaccess.session_times(values),
        ack=choice(values, "MQWEB_ACK", ("sync", "async")),
        flush_interval_ms=integer(values, "MQWEB_FLUSH_INTERVAL_MS", 1, _FLUSH_INTERVAL_MS_MAX),
        flush_least_pages=integer(values, "MQWEB_FLUSH_LEAST_PAGES", 0, _FLUSH_LEAST_PAGES_MAX),
        flush_thorough_ms=integer(values, "MQWEB_FLUSH_THOROUGH_MS", 1, _FLUSH_MS_MAX),
        flush_timeout_ms=integer(values, "MQWEB_FLUSH_TIMEOUT_MS", 1, _FLUSH_MS_MAX),
        flush_pool_bytes=integer(values, "MQWEB_FLUSH_POOL_BYTES", 0, _FLUSH_POOL_BYTES_MAX),
        flush_commit_ms=integer(values, "MQWEB_FLUSH_COMMIT_MS", 1, _FLUSH_INTERVAL_MS_MAX),
        reserve_bytes=integer(values, "MQWEB_RESERVE_BYTES", 0, _RESERVE_BYTES_MAX),
        disk_percent_max=integer(values, "MQWEB_DISK_PERCENT_MAX", 1, 100),
        requests_bytes_max=integer(
            values, "MQWEB_REQUESTS_BYTES_MAX", _IN_MEMORY_BYTES_MIN, _IN_MEMORY_BYTES_MAX
        ),
        answers_bytes_max=integer(
            values, "MQWEB_ANSWERS_BYTES_MAX", _IN_MEMORY_BYTES_MIN, _IN_MEMORY_BYTES_MAX
        ),
        client_requests_per_s=integer(values, "MQWEB_CLIENT_REQUESTS_PER_S", 0, _RATE_MAX),
        client_bytes_per_s=integer(values, "MQWEB_CLIENT_BYTES_PER_S", 0, _RATE_MAX),
        client_requests_max=integer(values, "MQWEB_CLIENT_REQUESTS_MAX", 0, _CONNECTIONS_MAX),
        client_connections_max=integer(values, "MQWEB_CLIENT_CONNECTIONS_MAX", 0, _CONNECTIONS_MAX),
        connections_max=integer(values, "MQWEB_CONNECTIONS_MAX", 1, _CONNECTIONS_MAX),
        head_timeout_ms=integer(values, "MQWEB_HEAD_TIMEOUT_MS", 1_000, _STANDSTILL_MS_MAX),
        body_timeout_ms=integer(values, "MQWEB_BODY_TIMEOUT_MS", 1_000, _STANDSTILL_MS_MAX),
        send_timeout_ms=integer(values, "MQWEB_SEND_TIMEOUT_MS", 1_000, _STANDSTILL_MS_MAX),
        segment_bytes=integer(
            values, "MQWEB_SEGMENT_BYTES", _SEGMENT_BYTES_MIN, _SEGMENT_BYTES_MAX
        ),
        index_slots=integer(values, "MQWEB_INDEX_SLOTS", _INDEX_SLOTS_MIN, _INDEX_SLOTS_MAX),
        index_entries=integer(
            values, "MQWEB_INDEX_ENTRIES", _INDEX_ENTRIES_MIN, _INDEX_ENTRIES_MAX
        ),
        read_threads=integer(values, "MQWEB_READ_THREADS", 1, _READ_THREADS_MAX),
        member_timeout_ms=integer(
            values, "MQWEB_MEMBER_TIMEOUT_MS", _MEMBER_TIMEOUT_MS_MIN, _MEMBER_TIMEOUT_MS_MAX
        ),
        audit_keep_days=integer(values, "MQWEB_AUDIT_KEEP_DAYS", 0, 36_500),
        queue_lock_ms=integer(
            values, "MQWEB_QUEUE_LOCK_MS", _QUEUE_LOCK_MS_MIN, _QUEUE_LOCK_MS_MAX
        ),
        broker_name=_broker_name(values["MQWEB_BROKER_NAME"]),
        delay_levels_ms=_delay_levels(values["MQWEB_DELAY_LEVELS"]),
        delay_ms_max=duration_ms("MQWEB_DELAY_MAX", values["MQWEB_DELAY_MAX"]),
        transaction_immunity_ms=integer(
            values, "MQWEB_TRANSACTION_IMMUNITY_MS", 0, _TRANSACTION_IMMUNITY_MS_MAX
        ),
        transaction_check_ms=integer(
            values,
            "MQWEB_TRANSACTION_CHECK_MS",
            _TRANSACTION_CHECK_MS_MIN,
            _TRANSACTION_CHECK_MS_MAX,
        ),
        transaction_checks_max=integer(
            values, "MQWEB_TRANSACTION_CHECKS_MAX", 1, _TRANSACTION_CHECKS_MAX
        ),
        retention_ms=duration_ms("MQWEB_RETENTION", values["MQWEB_RETENTION"]),
        retention_bytes=integer(values, "MQWEB_RETENTION_BYTES", 0, _RETENTION_BYTES_MAX),
        retention_hours=hours("MQWEB_RETENTION_HOURS", values["MQWEB_RETENTION_HOURS"]),
        retention_disk_percent=integer(values, "MQWEB_RETENTION_DISK_PERCENT", 10, 100),
        retention_force_percent=integer(values, "MQWEB_RETENTION_FORCE_PERCENT", 30, 100),
        compaction_messages_min=integer(
            values, "MQWEB_COMPACTION_MESSAGES_MIN", 1, _COMPACTION_MESSAGES_MAX
        ),
        compaction_new_percent=integer(values, "MQWEB_COMPACTION_NEW_PERCENT", 0, 99),
        compaction_keys_max=integer(
            values, "MQWEB_COMPACTION_KEYS_MAX", _COMPACTION_KEYS_MIN, _COMPACTION_MESSAGES_MAX
        ),
        compaction_tombstone_ms=duration_ms(
            "MQWEB_COMPACTION_TOMBSTONE", values["MQWEB_COMPACTION_TOMBSTONE"]
        ),
        pipelines=envspark.read(values, data),
        telling=envalerts.read(values),
        secret_key=_secret_key(values["MQWEB_SECRET_KEY"]),
        allowed_hosts=_allowed_hosts(values["MQWEB_ALLOWED_HOSTS"]),
        failpoints=checked(values, "MQWEB_FAILPOINTS", Failpoints),
        log_level=choice(values, "MQWEB_LOG_LEVEL", _LOG_LEVELS),
    )


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach an address; a name other than localhost is not."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _auth(value: str, host: str, secret_key: str) -> str:
    if value not in ("off", "on"):
        raise Refused(f"MQWEB_AUTH={value[:40]!r}: must be off or on")
    if value == "off" and not is_loopback(host):
        raise Refused(
            f"MQWEB_HOST={host}: without authentication mqweb listens on a loopback address only; "
            "use 127.0.0.1, ::1 or localhost, or MQWEB_AUTH=on"
        )
    if value == "on" and not secret_key:
        raise Refused(
            "MQWEB_AUTH=on needs MQWEB_SECRET_KEY: sessions and the tokens of our own processes "
            "depend on it, so it must not be one that lies beside the data"
        )
    return value


def _host(value: str) -> str:
    if not re.fullmatch(r"[0-9A-Za-z.:-]{1,253}", value):
        raise Refused(f"MQWEB_HOST={value!r}: must be an address or a host name")
    return value


def _own_broker_url(host: str, port: int) -> str:
    host = _own_host(host)
    return f"mqweb://{f'[{host}]' if ':' in host else host}:{port}//"


def _own_host(host: str) -> str:
    return _OF_ALL_ADDRESSES.get(host, host)


def _broker_name(value: str) -> str:
    if not re.fullmatch(r"([\w.-]{1,63}@)?[\w.-]{1,63}", value, re.ASCII):
        raise Refused(
            f"MQWEB_BROKER_NAME={value!r}: must be a name or room@name "
            "of letters, digits, dots, _ and -"
        )
    return value


def _delay_levels(value: str) -> tuple[int, ...]:
    """Return the delay of each level in milliseconds, as RocketMQ writes them: `1s 5s 10s`."""
    words = value.split()
    if not 1 <= len(words) <= limits.DELAY_LEVELS_MAX:
        raise Refused(f"MQWEB_DELAY_LEVELS: there are 1 to {limits.DELAY_LEVELS_MAX} levels")
    return tuple(duration_ms("MQWEB_DELAY_LEVELS", word) for word in words)


def _celery_broker_url(values: Mapping[str, str], host: str, port: int) -> str:
    value = values["CELERY_BROKER_URL"]
    if not value:
        return _own_broker_url(host, port)
    # Celery knows many schemes. The value may hold a password, so a refusal must not repeat it.
    if not urlsplit(value).scheme:
        raise Refused("CELERY_BROKER_URL: must begin with a scheme, such as redis://")
    return value


def _secret_key(value: str) -> str | None:
    if value and len(value) < _SECRET_KEY_CHARACTERS_MIN:
        raise Refused(f"MQWEB_SECRET_KEY: needs {_SECRET_KEY_CHARACTERS_MIN} characters or more")
    return value or None


def _allowed_hosts(value: str) -> tuple[str, ...]:
    hosts = tuple(host.strip() for host in value.split(",") if host.strip())
    # A wildcard would let any web page reach a server without authentication by DNS rebinding.
    if any("*" in host or host.startswith(".") for host in hosts):
        raise Refused("MQWEB_ALLOWED_HOSTS: names must be written out, without wildcards")
    return hosts
