"""Care of a blocked queue as operators give it. Knows the engine's verb; rows follow it."""

import logging
from collections.abc import Mapping

from apps.audit.services import recorded
from apps.bridge import engine as bridge
from apps.core.phrases import sentence
from apps.engine.caretypes import CareAct, CareRequest, CareResult
from apps.engine.errors import InvalidArgument
from apps.engine.grouptypes import QueuePlace
from apps.groups.models.fields import REASON_CHARACTERS_MAX
from apps.groups.selectors.locks import lock_id

_log = logging.getLogger("mqweb.groups")


def suspend_queue(
    *, group: str, place: QueuePlace, by: str, reason: str, expected_offset: int | None = None
) -> CareResult:
    """Have a queue give a group nothing until it is resumed.

    What every function here raises: InvalidArgument without a reason, HeadMoved where the head is
    not at `expected_offset`, what `attend` of the engine raises, and Busy while it cannot be asked.
    """
    return _attend(CareAct.SUSPEND, group, place, expected_offset, by=by, reason=reason)


def resume_queue(
    *, group: str, place: QueuePlace, by: str, reason: str, expected_offset: int | None = None
) -> CareResult:
    """Let a suspended queue give its messages again."""
    return _attend(CareAct.RESUME, group, place, expected_offset, by=by, reason=reason)


def skip_head(
    *, group: str, place: QueuePlace, by: str, reason: str, expected_offset: int
) -> CareResult:
    """Settle the message at the head of an ordered queue for the group; exactly that one."""
    return _attend(CareAct.SKIP, group, place, expected_offset, by=by, reason=reason)


def park_head(
    *, group: str, place: QueuePlace, by: str, reason: str, expected_offset: int
) -> CareResult:
    """Make a dead letter of the message at the head of an ordered queue, and go on behind it."""
    return _attend(CareAct.PARK, group, place, expected_offset, by=by, reason=reason)


def _attend(
    act: CareAct,
    group: str,
    place: QueuePlace,
    expected_offset: int | None,
    *,
    by: str,
    reason: str,
) -> CareResult:
    if not 1 <= len(reason.strip()) <= len(reason) <= REASON_CHARACTERS_MAX:
        raise InvalidArgument(
            sentence(
                "a reason has 1 to %(reason_characters_max)s characters",
                reason_characters_max=REASON_CHARACTERS_MAX,
            )
        )
    request = CareRequest(
        act=act,
        group=group,
        topic=place.topic,
        queue=place.queue,
        expected_offset=expected_offset,
        by=by,
        reason=reason,
    )
    with recorded(
        by=by,
        act=f"queue.{act.value}",
        kind="queue",
        name=lock_id(group, place.topic, place.queue),
        reason=reason,
        before=None if expected_offset is None else {"head": expected_offset},
    ) as entry:
        result = bridge.call(lambda engine: engine.attend(request))
        entry.after = _told(result)
    if not result.is_repeat:
        extra = {
            "act": act.value,
            "group": group,
            "topic": place.topic,
            "queue": place.queue,
            "offset": expected_offset,
            "by": by,
            "reason": reason,
        }
        _log.warning("queue_attended_by_operator", extra=extra)
    return result


def _told(result: CareResult) -> Mapping[str, object]:
    """Return what is the case after an act, as the audit log keeps it."""
    return {
        "head": result.head,
        "is_suspended": result.suspension is not None,
        "dead_letter_offset": result.dead_letter_offset,
        "was_so_before": result.is_repeat,
    }
