"""How a push consumer comes and goes, as plans. Knows no sockets, threads or loops."""

import logging

from mqclient.consuming.push.core import PushCore
from mqclient.errors import MqError, Refused
from mqclient.protocol.calls import Call, Calls
from mqclient.protocol.plans import Patience, Plan, persistently

logger = logging.getLogger("mqclient")


def join(core: PushCore, patience: Patience) -> Plan[None]:
    """Join the group; raise MqError when that is refused, or not possible in time."""
    answer = yield from persistently(core.join(), patience)
    core.joined(answer)


def leave(core: PushCore, calls: Calls, patience: Patience, *, is_idle: bool) -> Plan[None]:
    """Commit what is done and leave; nothing is raised, since there is no second try.

    With an ordered listener still running the member does not leave: its queues would go to others
    at once. Theirs is then what is idle, and the rest when the broker's lease is over.
    """
    for whole, *singles in core.last_words():
        if not (yield from _tried(whole, patience)):
            for single in singles:
                yield from _tried(single, patience)
    settings = core.settings
    if is_idle or not settings.is_locking:
        try:
            yield from persistently(calls.leave(settings.group, settings.client_id), patience)
        except MqError as error:
            logger.warning("not told the broker at the end: %s", error)
        return
    logger.warning("a listener still runs; its queue is not released and waits for its lease")
    if places := core.idle_places():
        call = calls.release_locks(settings.group, settings.client_id, places)
        yield from _tried(call, patience)


def _tried(call: Call[object], patience: Patience) -> Plan[bool]:
    try:
        yield from persistently(call, patience)
    except Refused as error:
        logger.warning("refused at the end: %s", error)
        return False
    except MqError as error:
        logger.warning("not told the broker at the end: %s", error)
    return True
