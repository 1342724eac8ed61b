"""The store and its broker as operators see them: sizes, marks, damage, clients, settings in force.

Asks the engine once and reads no message. Secrets are never shown, only whether they are set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

from django.conf import settings

from apps.bridge import engine as bridge
from apps.engine.api import EngineControl
from apps.engine.types import ClientSeen, EngineStatus

CLIENTS_MAX = 200
# A URL may hold a password, and Spark's settings anything.
_SECRETS = frozenset(
    {
        "MQWEB_SECRET_KEY",
        "DATABASE_URL",
        "REDIS_URL",
        "CELERY_BROKER_URL",
        "MQWEB_SPARK_CONF",
        "MQWEB_FAILPOINTS",
        "MQWEB_MAIL_PASSWORD",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A variable in force; a secret one only says whether it is set."""

    name: str
    value: str
    is_secret: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """From which share of the disk on, in percent, what happens."""

    delete_percent: int
    """Age is a reason to delete at any hour."""
    force_percent: int
    """The oldest goes whatever its age."""
    refuse_percent: int
    """Sends are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One reading of the store and its broker.

    `clients` are the first CLIENTS_MAX of `client_count` that received since the broker started.
    """

    status: EngineStatus
    version: str
    marks: Marks
    client_count: int
    clients: Sequence[ClientSeen]
    topic_count: int
    settings: Sequence[Setting]

    @property
    def log_bytes(self) -> int:
        """Return the length of the log."""
        return self.status.written_offset - self.status.log_start

    @property
    def segment_count(self) -> int | None:
        """Return how many files the log lies in; None where their length is not known."""
        status = self.status
        if not status.segment_bytes:
            return None
        last = max(status.written_offset - 1, status.log_start)
        return last // status.segment_bytes - status.log_start // status.segment_bytes + 1

    @property
    def used_percent(self) -> float | None:
        """Return how full the disk is; None where it is not known."""
        status = self.status
        if not status.disk_bytes:
            return None
        if status.retention is not None:
            return 100 * status.retention.disk_used
        return 100 * (1 - status.free_bytes / status.disk_bytes)

    @property
    def behind(self) -> Mapping[str, int | None]:
        """Return by how many bytes each thing that follows the log is behind it."""
        status = self.status
        written = status.written_offset
        offsets = {
            "synced": status.synced_offset,
            "queues": status.queues_dispatched,
            "index": status.index_dispatched,
            "checkpoint": status.checkpoint_offset,
        }
        return {
            name: None if offset is None else max(0, written - offset)
            for name, offset in offsets.items()
        }


def store() -> Store:
    """Return one reading. Raises Busy while the engine cannot be asked."""
    status, clients, topic_count = bridge.call(_asked)
    environment = settings.MQWEB
    return Store(
        status=status,
        version=_version(),
        marks=Marks(
            delete_percent=environment.retention_disk_percent,
            force_percent=environment.retention_force_percent,
            refuse_percent=environment.disk_percent_max,
        ),
        client_count=len(clients),
        clients=clients[:CLIENTS_MAX],
        topic_count=topic_count,
        settings=[_setting(name, value) for name, value in environment.in_force()],
    )


def _asked(engine: EngineControl) -> tuple[EngineStatus, list[ClientSeen], int]:
    return engine.status(), engine.clients(), len(engine.catalog.topics)


def _setting(name: str, value: str) -> Setting:
    if name in _SECRETS:
        return Setting(name=name, value="set" if value else "not set", is_secret=True)
    return Setting(name=name, value=value, is_secret=False)


def _version() -> str:
    """Return the version that is installed; the one of the source where none is."""
    try:
        return metadata.version("mqweb")
    except metadata.PackageNotFoundError:
        return "0.1.0"
