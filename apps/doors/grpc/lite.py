"""Lite topics: what a client subscribes to, and whom it takes one from. Translates only.

Knows sets of names and whom to tell; sends and receives no message.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from apps.access.policy import Action, group, topic
from apps.doors.grpc import names
from apps.doors.grpc.calls import Call, GrpcDoor
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.route import known_topic
from apps.doors.grpc.statuses import OK, Illegal
from apps.engine.codec.litenames import lite_parts
from apps.engine.errors import NotPermitted, UnknownTopic
from apps.engine.litetypes import LiteAction, LiteSync
from apps.engine.types import ConsumeFrom, TopicSpec, TopicType

CLIENTS = frozenset({pb.LITE_PUSH_CONSUMER, pb.LITE_SIMPLE_CONSUMER})

_ACTIONS = {
    pb.PARTIAL_ADD: LiteAction.ADD,
    pb.PARTIAL_REMOVE: LiteAction.REMOVE,
    pb.COMPLETE_ADD: LiteAction.REPLACE,
    pb.COMPLETE_REMOVE: LiteAction.CLEAR,
}
_BEGINS = {
    pb.OffsetOption.LAST: None,
    pb.OffsetOption.MIN: ConsumeFrom.FIRST,
    pb.OffsetOption.MAX: ConsumeFrom.LAST,
}


async def sync_lite_subscription(
    door: GrpcDoor, call: Call, request: pb.SyncLiteSubscriptionRequest
) -> object:
    """Add lite topics to a client's set, take some away, replace it, or clear it.

    Clients say all of it again every half minute. Their `version` is a number of their own that
    none of them sends.
    """
    group_name = names.group_of(request.group, call.namespace)
    parent = names.topic_of(request.topic, call.namespace)
    call.rights.require(group(group_name), Action.SUB)
    call.rights.require(topic(parent), Action.SUB)
    check_parent(known_topic(call.engine.catalog, parent))
    action = _ACTIONS.get(request.action)
    if action is None:
        raise Illegal(pb.BAD_REQUEST, "the action on the subscription is unknown")
    asked = LiteSync(
        group=group_name,
        client_id=call.client_id,
        topic=parent,
        action=action,
        names=_names_of(call, request),
    )
    if action is LiteAction.ADD and request.HasField("offset_option"):
        asked = _with_begin(asked, request.offset_option)
    call.session.lite = (group_name, parent)
    synced = await call.engine.sync_lite(asked)
    _tell_evicted(door, group_name, synced.evicted)
    return pb.SyncLiteSubscriptionResponse(status=OK)


async def clear(call: Call) -> None:
    """Forget the set of a client that ends."""
    if call.session.lite is None:
        return
    group_name, parent = call.session.lite
    call.session.lite = None
    asked = LiteSync(
        group=group_name, client_id=call.client_id, topic=parent, action=LiteAction.CLEAR
    )
    # Where the topic went, or the group was switched off, the set goes by itself.
    with contextlib.suppress(UnknownTopic, NotPermitted):
        await call.engine.sync_lite(asked)


def is_parent(spec: TopicSpec) -> bool:
    """Say whether a topic has lite topics; a lite topic itself has none."""
    return spec.type is TopicType.LITE and lite_parts(spec.name) is None


def check_parent(spec: TopicSpec) -> None:
    """Raise Illegal for a topic that has no lite topics."""
    if not is_parent(spec):
        raise Illegal(
            pb.BAD_REQUEST, f"topic {spec.name} is of type {spec.type} and has no lite topics"
        )


def _tell_evicted(door: GrpcDoor, group_name: str, evicted: Sequence[tuple[str, str]]) -> None:
    """Tell clients which lite topics of their sets are another's now, where they can be reached.

    One that cannot is told nothing, and is handed nothing of them all the same.
    """
    lost: dict[str, list[str]] = {}
    for client_id, name in evicted:
        lost.setdefault(client_id, []).append(name)
    for session in door.sessions if lost else ():
        is_meant = session.lite is not None and session.lite[0] == group_name
        if is_meant and session.client_id in lost and session.streams:
            door.notices.send(
                session.streams[-1],
                [
                    pb.TelemetryCommand(
                        notify_unsubscribe_lite_command=pb.NotifyUnsubscribeLiteCommand(
                            lite_topic=name
                        )
                    )
                    for name in lost[session.client_id]
                ],
            )


def _names_of(call: Call, request: pb.SyncLiteSubscriptionRequest) -> tuple[str, ...]:
    """Return the names of lite topics that a request is about.

    Python's client, 5.1.2 at least, adds a lite topic by the letters of its name, and says it whole
    only half a minute later. It never adds several at once.
    """
    said = tuple(request.lite_topic_set)
    is_spelled = request.action == pb.PARTIAL_ADD and len(said) > 1 and max(map(len, said)) == 1
    if is_spelled and call.session.software.partition(" ")[0] == "PYTHON":
        return ("".join(said),)
    return said


def _with_begin(asked: LiteSync, option: pb.OffsetOption) -> LiteSync:
    """Return a request that says where the group begins in what it has not read; raise Illegal."""
    kind = option.WhichOneof("offset_type")
    if kind is None:
        return asked
    if kind == "policy":
        if option.policy not in _BEGINS:
            raise Illegal(pb.BAD_REQUEST, "the policy of the offset option is unknown")
        return replace(asked, begin=_BEGINS[option.policy])
    number = getattr(option, kind)
    if number < 0:
        raise Illegal(pb.BAD_REQUEST, "a time, an offset and a number of messages are 0 or more")
    match kind:
        case "offset":
            return replace(asked, begin_offset=number)
        case "tail_n":
            return replace(asked, begin_tail=number)
        case _:
            return replace(asked, begin=ConsumeFrom.TIMESTAMP, begin_ms=number)
