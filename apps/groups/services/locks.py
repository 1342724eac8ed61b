"""Locks as operators change them. Knows the engine's verbs; rows follow by projection."""

import logging
from functools import partial

from apps.audit.services import recorded
from apps.bridge import engine as bridge
from apps.core.actors import UNNAMED
from apps.core.phrases import sentence
from apps.engine.api import EngineControl
from apps.engine.errors import InvalidArgument
from apps.engine.grouptypes import LockTransition, QueuePlace
from apps.groups.models.fields import REASON_CHARACTERS_MAX
from apps.groups.selectors.locks import lock_id

_log = logging.getLogger("mqweb.groups")


def release_lock(
    *,
    group: str,
    place: QueuePlace,
    reason: str,
    expected_owner: str | None = None,
    by: str = UNNAMED,
) -> LockTransition | None:
    """Take a queue's lock from whoever holds it; None when nobody does.

    The holder is refused from its next request on, and whoever is assigned the queue may take the
    lock. `reason` is kept in the lock's history. Raises InvalidArgument without a reason, LockLost
    when the owner is not the one expected, and Busy while the engine cannot be asked.
    """
    if not 1 <= len(reason.strip()) <= len(reason) <= REASON_CHARACTERS_MAX:
        raise InvalidArgument(
            sentence(
                "a reason has 1 to %(reason_characters_max)s characters",
                reason_characters_max=REASON_CHARACTERS_MAX,
            )
        )
    name = lock_id(group, place.topic, place.queue)
    expected = None if expected_owner is None else {"owner": expected_owner}
    with recorded(
        by=by, act="lock.release", kind="lock", name=name, reason=reason, before=expected
    ) as entry:
        release = partial(
            _release, group=group, place=place, reason=reason, expected_owner=expected_owner
        )
        released = bridge.call(release)
        if released is None:
            entry.refuse("not_held", "nobody holds the lock")
        else:
            entry.before = {"owner": released.previous_owner}
            entry.after = {"owner": released.owner or None, "epoch": released.epoch}
    if released is not None:
        extra = {
            "group": group,
            "topic": place.topic,
            "queue": place.queue,
            "owner": released.previous_owner,
            "reason": reason,
        }
        _log.warning("lock_released_by_operator", extra=extra)
    return released


def _release(
    engine: EngineControl,
    *,
    group: str,
    place: QueuePlace,
    reason: str,
    expected_owner: str | None,
) -> LockTransition | None:
    return engine.release_lock(group, place, reason=reason, expected_owner=expected_owner)
