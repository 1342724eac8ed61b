"""The projection of progress and members into rows. Knows rows and values, no clock of its own."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from apps.bridge import engine as bridge
from apps.clockwork.deleting import delete_some
from apps.clockwork.steps import Step
from apps.engine.api import EngineControl
from apps.engine.types import ClientSeen, GroupProgress
from apps.groups.models import ConsumerOffset, Member

Key = tuple[str, str, int]
Offsets = tuple[int, int]

# One statement carries six values a row; PostgreSQL takes 65,535 in one.
_ROWS_PER_STATEMENT = 5_000

# RocketMQ's own limit for a client that says nothing.
SILENT_MS = 120_000
# A row is written again when it is this old, so that a member costs two statements a minute.
_REFRESH = timedelta(seconds=30)
_MEMBERS_PER_STEP = 1_000


class OffsetProjector:
    """Writes progress that changed since the last write, in one upsert."""

    def __init__(self) -> None:
        """Know nothing yet: the first projection writes every row."""
        self._written: dict[Key, Offsets] = {}

    def project(self, progress: Sequence[GroupProgress], *, now_ms: int) -> int:
        """Write what changed and return how many rows that were.

        When the database refuses, nothing is remembered and the next call writes it again.
        """
        changed = {
            (row.group, row.topic, row.queue): (row.committed, row.delivered)
            for row in progress
            if self._written.get((row.group, row.topic, row.queue))
            != (row.committed, row.delivered)
        }
        if not changed:
            return 0
        updated_at = _moment(now_ms)
        ConsumerOffset.objects.bulk_create(
            [
                ConsumerOffset(
                    group=group,
                    topic=topic,
                    queue=queue,
                    committed=committed,
                    delivered=delivered,
                    updated_at=updated_at,
                )
                for (group, topic, queue), (committed, delivered) in changed.items()
            ],
            batch_size=_ROWS_PER_STATEMENT,
            update_conflicts=True,
            unique_fields=["group", "topic", "queue"],
            update_fields=["committed", "delivered", "updated_at"],
        )
        self._written.update(changed)
        return len(changed)


def expire_silent_clients(*, now_ms: int) -> Step:
    """Have the engine forget clients that are silent for two minutes, and keep rows of the others.

    At most 1,000 rows are written and 1,000 deleted in a step; `done` counts both. A row goes when
    its client was not seen for two minutes, also where the engine was started since and never knew
    it. Two workers may do it at once. Raises Busy while the engine cannot be asked.
    """
    before = _moment(now_ms - SILENT_MS)
    outdated = _outdated(bridge.call(_seen_lately), before=before)
    _write_members(outdated[:_MEMBERS_PER_STEP])
    written = min(len(outdated), _MEMBERS_PER_STEP)
    if written < len(outdated):
        # Rows of clients that live are made level before any row is taken for a silent one's.
        return Step(done=written, more=True)
    deleted = _delete_silent(before=before)
    return Step(done=written + deleted, more=deleted == _MEMBERS_PER_STEP)


def _seen_lately(engine: EngineControl) -> list[ClientSeen]:
    engine.forget_silent_clients(SILENT_MS)
    return engine.clients()


def _outdated(seen: Sequence[ClientSeen], *, before: datetime) -> list[ClientSeen]:
    """Return the clients whose rows are missing, of other topics, old or about to be deleted."""
    rows = {
        (group, client_id): (topics, last_seen_at)
        for group, client_id, topics, last_seen_at in Member.objects.values_list(
            "group", "client_id", "topics", "last_seen_at"
        ).iterator()
    }

    def is_level(client: ClientSeen) -> bool:
        topics, last_seen_at = rows.get((client.group, client.client_id), (None, before))
        is_fresh = abs(_moment(client.last_seen_ms) - last_seen_at) < _REFRESH
        return topics == list(client.topics) and last_seen_at >= before and is_fresh

    return [client for client in seen if not is_level(client)]


def _write_members(clients: Sequence[ClientSeen]) -> None:
    # In one order, so that two workers wait for each other's rows in a line and not in a circle.
    in_order = sorted(clients, key=lambda client: (client.group, client.client_id))
    Member.objects.bulk_create(
        [
            Member(
                group=client.group,
                client_id=client.client_id,
                topics=list(client.topics),
                first_seen_at=_moment(client.first_seen_ms),
                last_seen_at=_moment(client.last_seen_ms),
            )
            for client in in_order
        ],
        update_conflicts=True,
        unique_fields=["group", "client_id"],
        update_fields=["topics", "first_seen_at", "last_seen_at"],
    )


def _delete_silent(*, before: datetime) -> int:
    # A row another worker holds is one it deletes too, or whose client it has just seen.
    silent = Member.objects.filter(last_seen_at__lt=before)
    return delete_some(silent.order_by("group", "client_id"), rows_max=_MEMBERS_PER_STEP)


def _moment(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)
