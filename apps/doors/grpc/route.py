"""QueryRoute and QueryAssignment: where a topic is, and what a consumer asks for. Translates only.

Everything is here: clients are sent back to the endpoints they came by.
"""

from apps.access.policy import Action, group, topic
from apps.doors.grpc import groups, names
from apps.doors.grpc.calls import Call, GrpcDoor
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.statuses import OK
from apps.engine.codec.litenames import lite_spec
from apps.engine.errors import NotPermitted, UnknownTopic
from apps.engine.types import PERM_READ, PERM_WRITE, CatalogSnapshot, TopicSpec, TopicType

# Of all queues of a broker, whichever has something.
_ANY_QUEUE = -1
# Clients keep the queues of masters only, and a master has this id.
_MASTER = 0


async def query_route(door: GrpcDoor, call: Call, request: pb.QueryRouteRequest) -> object:
    """Return the queues of a topic and where they are, by the name they were asked for.

    Some clients receive from the name in the route, and say their namespace beside it again.
    """
    name = names.topic_of(request.topic, call.namespace)
    call.rights.require(topic(name), Action.GET)
    broker = _broker(door, request.endpoints)
    spec = known_topic(call.engine.catalog, name)
    return pb.QueryRouteResponse(
        status=OK,
        message_queues=[
            pb.MessageQueue(
                topic=request.topic,
                id=number,
                permission=_permission(spec, number),
                broker=broker,
                accept_message_types=groups.accepted_types(spec),
            )
            for number in range(spec.queue_count)
        ],
    )


async def query_assignment(
    door: GrpcDoor, call: Call, request: pb.QueryAssignmentRequest
) -> object:
    """Return what a push consumer receives from: one place for all, and every queue in order.

    All members are told the same, so nothing moves when one comes or goes.
    """
    name = names.topic_of(request.topic, call.namespace)
    group_name = names.group_of(request.group, call.namespace)
    call.rights.require(topic(name), Action.SUB)
    call.rights.require(group(group_name), Action.SUB)
    broker = _broker(door, request.endpoints)
    catalog = call.engine.catalog
    spec = known_topic(catalog, name)
    if not spec.perm & PERM_READ:
        raise NotPermitted(f"topic {name} may not be read")
    # A receive of lite topics looks at all its client has, whichever queue it names.
    is_fifo = spec.type is not TopicType.LITE and groups.is_fifo(catalog, group_name, name)
    return pb.QueryAssignmentResponse(
        status=OK,
        assignments=[
            pb.Assignment(
                message_queue=pb.MessageQueue(
                    topic=request.topic,
                    id=number,
                    permission=_permission(spec, max(number, 0)),
                    broker=broker,
                    accept_message_types=groups.accepted_types(spec),
                )
            )
            for number in (range(spec.queue_count) if is_fifo else (_ANY_QUEUE,))
        ],
    )


def known_topic(catalog: CatalogSnapshot, name: str) -> TopicSpec:
    """Return a topic of the catalog, a lite one, or a group's dead letters; raise UnknownTopic."""
    spec = catalog.topics.get(name) or lite_spec(catalog, name)
    if spec is not None:
        return spec
    if names.is_dead_letters(name):
        return TopicSpec(name=name, queue_count=1, perm=PERM_READ)
    raise UnknownTopic(f"there is no topic {name}")


def _broker(door: GrpcDoor, endpoints: pb.Endpoints) -> pb.Broker:
    return pb.Broker(
        name=door.settings.broker_name, id=_MASTER, endpoints=names.endpoints_of(endpoints)
    )


def _permission(spec: TopicSpec, queue: int) -> pb.Permission:
    reads = bool(spec.perm & PERM_READ)
    writes = bool(spec.perm & PERM_WRITE) and queue < spec.writable_count
    if reads and writes:
        return pb.READ_WRITE
    if reads:
        return pb.READ
    return pb.WRITE if writes else pb.NONE
