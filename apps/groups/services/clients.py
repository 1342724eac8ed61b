"""Clients that groups had lately, kept as rows. Knows rows and values, no clock of its own.

What a member that keeps a heartbeat wants and has is written by the projection; this keeps the
moments, and the rows of those that only receive.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from apps.bridge import engine as bridge
from apps.clockwork.deleting import delete_some
from apps.clockwork.steps import Step
from apps.core.moments import moment
from apps.engine.api import EngineControl
from apps.engine.types import ClientSeen
from apps.groups.models import Member
from apps.groups.projection.turns import turn

# RocketMQ's own limit for a client that says nothing.
SILENT_MS = 120_000
# A row is written again when it is this old, so that a member costs two statements a minute.
_REFRESH = timedelta(seconds=30)
_MEMBERS_PER_STEP = 1_000


def expire_silent_clients(*, now_ms: int) -> Step:
    """Have the engine forget clients that are silent for two minutes, and keep rows of the others.

    At most 1,000 rows are written and 1,000 deleted in a step; `done` counts both. A row goes when
    its client was not seen for two minutes, also where the engine was started since and never knew
    it. Two workers may do it at once. Raises Busy while the engine cannot be asked.
    """
    before = moment(now_ms - SILENT_MS)
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
        is_fresh = abs(moment(client.last_seen_ms) - last_seen_at) < _REFRESH
        return topics == list(client.topics) and last_seen_at >= before and is_fresh

    return [client for client in seen if not is_level(client)]


def _write_members(clients: Sequence[ClientSeen]) -> None:
    if not clients:
        return
    # The projection of members writes the same rows, in turn with us.
    with turn():
        Member.objects.bulk_create(
            [
                Member(
                    group=client.group,
                    client_id=client.client_id,
                    topics=list(client.topics),
                    first_seen_at=moment(client.first_seen_ms),
                    last_seen_at=moment(client.last_seen_ms),
                )
                for client in clients
            ],
            update_conflicts=True,
            unique_fields=["group", "client_id"],
            update_fields=["topics", "first_seen_at", "last_seen_at"],
        )


def _delete_silent(*, before: datetime) -> int:
    # A row another worker holds is one it deletes too, or whose client it has just seen.
    silent = Member.objects.filter(last_seen_at__lt=before)
    return delete_some(silent.order_by("group", "client_id"), rows_max=_MEMBERS_PER_STEP)
