"""Resets of offsets: applied as they were previewed, undone, and kept as rows.

The row comes before the engine is asked and says `asked`; the engine knows each reset by its id, so
whoever repeats a request whose answer was lost gets that answer. The guard is the engine's: each
queue must be where the preview showed it, or a little on.
"""

import logging
from collections.abc import Mapping, Sequence

from django.db import transaction

from apps.audit.services import Recording, recorded
from apps.bridge import engine as bridge
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.phrases import sentence
from apps.engine.api import EngineControl
from apps.engine.caretypes import QueueReset, ResetRequest
from apps.engine.clock import Clock
from apps.engine.codec.layout import RETRY_PREFIX
from apps.engine.errors import InvalidArgument, Refused
from apps.engine.types import QueueRange
from apps.groups import tokens
from apps.groups.models import OffsetReset
from apps.groups.models.fields import REASON_CHARACTERS_MAX
from apps.groups.models.resets import ResetState

_log = logging.getLogger("mqweb.groups")


def apply_offsets(*, group: str, token: str, by: str, reason: str, clock: Clock) -> OffsetReset:
    """Carry out a reset as its preview showed it; the row's key is what undoes it.

    The same token again is answered as the first time. Raises InvalidArgument for a token that is
    not a preview's of this group, and without a reason; OffsetsMoved, with nothing changed, where
    the group is elsewhere by now; and Busy while the engine cannot be asked.
    """
    _check_reason(reason)
    promise = tokens.read(token)
    if promise.group != group:
        raise InvalidArgument(
            sentence("the preview is of group %(group)s", group=repr(promise.group))
        )
    wanted = [
        QueueReset(
            topic=one.topic,
            queue=one.queue,
            target=one.target,
            expected_min=one.current,
            expected_max=one.current + promise.moved_max,
        )
        for one in promise.queues
        if one.target != one.current
    ]
    if not wanted:
        raise InvalidArgument(sentence("the group is already there: nothing would change"))
    done = OffsetReset.objects.filter(reset_id=promise.reset_id, group=group).first()
    if done is not None and done.state != ResetState.ASKED:
        return done
    with recorded(
        by=by,
        act="offsets.apply",
        kind="group",
        name=group,
        reason=reason,
        before=_places({(one.topic, one.queue): one.expected_min for one in wanted}),
    ) as entry:
        row, _ = OffsetReset.objects.get_or_create(
            reset_id=promise.reset_id,
            defaults={
                "group": group,
                "target": promise.target,
                "by": by,
                "reason": reason,
                "at": moment(clock.wall_ms()),
                "state": ResetState.ASKED,
                "moved_max": promise.moved_max,
            },
        )
        return _carried_out(row, wanted, entry)


def undo_offsets(
    *, group: str, undo_id: int, by: str, reason: str, clock: Clock, moved_max: int | None = None
) -> OffsetReset:
    """Have a group go on where it was before a reset; return the row of the undoing.

    The guard is that of applying: a queue must be where the reset put it, or have got on by no more
    than `moved_max`, by default that of the reset; of what the reset had come again, it may have
    read all. A second undoing is answered as the first. Refuses an unknown reset as `not_found`,
    and an undoing as `conflict`; raises what `apply_offsets` raises.
    """
    _check_reason(reason)
    undone = OffsetReset.objects.filter(pk=undo_id, group=group).first()
    if undone is None or undone.state == ResetState.ASKED:
        raise ProblemError(
            "not_found",
            sentence(
                "group %(group)s has no reset %(undo_id)s that was applied",
                group=repr(group),
                undo_id=undo_id,
            ),
        )
    if undone.undoes_id is not None:
        raise ProblemError(
            "conflict", sentence("what was undone is applied again by a preview of its own")
        )
    done = OffsetReset.objects.filter(undoes=undone).first()
    if done is not None and done.state != ResetState.ASKED:
        return done
    slack = undone.moved_max if moved_max is None else moved_max
    topics = {str(one["topic"]) for one in undone.queues}
    ranges = bridge.call(lambda engine: _ranges(engine, topics, group))
    wanted = [
        QueueReset(
            topic=one["topic"],
            queue=one["queue"],
            # Retention may have deleted where it was.
            target=max(found.min_offset, min(one["before"], found.max_offset)),
            expected_min=one["after"],
            expected_max=max(one["before"], one["after"]) + slack,
        )
        for one in undone.queues
        if (found := ranges.get((one["topic"], one["queue"]))) is not None
    ]
    with recorded(
        by=by,
        act="offsets.undo",
        kind="group",
        name=group,
        reason=reason,
        before=_places({(one.topic, one.queue): one.expected_min for one in wanted}),
    ) as entry:
        row, _ = OffsetReset.objects.get_or_create(
            undoes=undone,
            defaults={
                "reset_id": f"undo-{undone.reset_id}",
                "group": group,
                "target": f"undo of {undone.pk}",
                "by": by,
                "reason": reason,
                "at": moment(clock.wall_ms()),
                "state": ResetState.ASKED,
                "moved_max": slack,
            },
        )
        return _carried_out(row, wanted, entry)


def _carried_out(row: OffsetReset, wanted: Sequence[QueueReset], entry: Recording) -> OffsetReset:
    if row.state != ResetState.ASKED:
        # Somebody who asked for the same was faster by a moment.
        return row
    request = ResetRequest(group=row.group, reset_id=row.reset_id, queues=tuple(wanted))
    try:
        result = bridge.call(lambda engine: engine.reset_offsets(request))
    except Refused:
        # Nothing was changed, so nothing is to be remembered.
        OffsetReset.objects.filter(pk=row.pk, state=ResetState.ASKED).delete()
        raise
    entry.before = _places({(one.topic, one.queue): one.before for one in result.queues})
    entry.after = {
        **_places({(one.topic, one.queue): one.after for one in result.queues}),
        "reset": row.pk,
        "target": row.target,
        "was_so_before": result.is_repeat,
    }
    row.queues = [
        {"topic": one.topic, "queue": one.queue, "before": one.before, "after": one.after}
        for one in result.queues
    ]
    row.state = ResetState.APPLIED
    with transaction.atomic():
        row.save(update_fields=["queues", "state"])
        if row.undoes_id is not None:
            OffsetReset.objects.filter(pk=row.undoes_id).update(state=ResetState.UNDONE)
    if not result.is_repeat:
        extra = {
            "group": row.group,
            "target": row.target,
            "queues": len(result.queues),
            "by": row.by,
            "reason": row.reason,
        }
        _log.warning("offsets_reset_by_operator", extra=extra)
    return row


def _places(offsets: Mapping[tuple[str, int], int]) -> dict[str, object]:
    """Return where a group is in queues, as the audit log keeps it; long lists end with a count."""
    return {
        "queues": [
            {"topic": topic, "queue": queue, "offset": offset}
            for (topic, queue), offset in offsets.items()
        ]
    }


def _ranges(
    engine: EngineControl, topics: set[str], group: str
) -> dict[tuple[str, int], QueueRange]:
    retries = RETRY_PREFIX + group
    found = engine.topic_ranges(sorted(topics - {retries}))
    if retries in topics:
        found = {**found, **engine.own_ranges(retries)}
    return {(topic, one.queue): one for topic, ranges in found.items() for one in ranges}


def _check_reason(reason: str) -> None:
    if not 1 <= len(reason.strip()) <= len(reason) <= REASON_CHARACTERS_MAX:
        raise InvalidArgument(
            sentence(
                "a reason has 1 to %(reason_characters_max)s characters",
                reason_characters_max=REASON_CHARACTERS_MAX,
            )
        )
