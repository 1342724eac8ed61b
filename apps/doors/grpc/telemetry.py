"""Telemetry, Heartbeat and NotifyClientTermination: clients come, say what they do, and go.

Knows sessions and what settings say; sends and receives no message.
"""

from apps.access.policy import Action, group
from apps.doors.grpc import groups, lite, names
from apps.doors.grpc.calls import Call, GrpcDoor
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.sessions import Stream
from apps.doors.grpc.statuses import OK, Illegal
from apps.engine.filters.subscription import compile_filter
from apps.engine.limits import LITE_NAME_CHARACTERS_MAX, LITE_SUBSCRIPTIONS_MAX
from apps.engine.types import CatalogSnapshot, FilterType

_PRODUCER_ATTEMPTS = 3
_PRODUCER_FIRST_MS, _PRODUCER_MAX_MS = 10, 1_000
_BATCH_SIZE = 32
_CONSUMERS = frozenset({pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.PULL_CONSUMER}) | lite.CLIENTS
_KNOWN = _CONSUMERS | {pb.PRODUCER}


async def heartbeat(_door: GrpcDoor, call: Call, request: pb.HeartbeatRequest) -> object:
    """Take note that a client lives, also of one whose settings are not known yet."""
    if request.client_type not in _KNOWN:
        raise Illegal(
            pb.UNRECOGNIZED_CLIENT_TYPE,
            "this server knows producers, and push, simple, pull and lite consumers",
        )
    if request.client_type in _CONSUMERS and request.HasField("group"):
        name = names.group_of(request.group, call.namespace)
        call.rights.require(group(name), Action.SUB)
    return pb.HeartbeatResponse(status=OK)


async def terminate(
    door: GrpcDoor, call: Call, _request: pb.NotifyClientTerminationRequest
) -> object:
    """Forget a client that ends. Some producers name a group without a name, most none."""
    door.sessions.forget(call.session)
    await lite.clear(call)
    return pb.NotifyClientTerminationResponse(status=OK)


async def answer(door: GrpcDoor, call: Call, stream: Stream, command: pb.TelemetryCommand) -> None:
    """Answer one command of a client: its settings are sent back with the server's in them.

    What else clients tell answers questions that this server does not ask.
    """
    if command.WhichOneof("command") != "settings":
        return
    asked = command.settings
    _check(asked, call.namespace)
    call.session.settings = asked
    topics = [names.writable_topic_of(one, call.namespace) for one in asked.publishing.topics]
    for name in topics:
        call.session.sends_to(name)
    merged = merged_settings(door, asked, call.engine.catalog, call.namespace)
    await stream.send(pb.TelemetryCommand(status=OK, settings=merged))
    for name in topics:
        door.checks.mention(name)


def merged_settings(
    door: GrpcDoor, asked: pb.Settings, catalog: CatalogSnapshot, namespace: str
) -> pb.Settings:
    """Return a client's settings with what the server decides in them."""
    merged = pb.Settings()
    merged.CopyFrom(asked)
    merged.metric.on = False
    if asked.WhichOneof("pub_sub") == "subscription":
        _merge_subscription(door, merged, catalog, namespace)
    else:
        merged.publishing.max_body_size = door.door.settings.body_bytes_max
        merged.publishing.validate_message_type = True
        merged.backoff_policy.CopyFrom(
            pb.RetryPolicy(
                max_attempts=_PRODUCER_ATTEMPTS,
                exponential_backoff=pb.ExponentialBackoff(
                    initial=groups.duration(_PRODUCER_FIRST_MS),
                    max=groups.duration(_PRODUCER_MAX_MS),
                    multiplier=2.0,
                ),
            )
        )
    return merged


def _merge_subscription(
    door: GrpcDoor, merged: pb.Settings, catalog: CatalogSnapshot, namespace: str
) -> None:
    subscription = merged.subscription
    group_name = ""
    if subscription.HasField("group"):
        group_name = names.group_of(subscription.group, namespace)
    topics = [names.topic_of(entry.topic, namespace) for entry in subscription.subscriptions]
    # A client works in order or not as a whole; one topic out of order and it need not.
    subscription.fifo = all(groups.is_fifo(catalog, group_name, topic) for topic in topics or [""])
    is_lite = merged.client_type in lite.CLIENTS
    if is_lite:
        subscription.lite_subscription_quota = LITE_SUBSCRIPTIONS_MAX
        subscription.max_lite_topic_size = LITE_NAME_CHARACTERS_MAX
    # Go's client goes on with the messages behind one that failed, so it is given none behind it.
    # It works through lite topics in order whatever it is told.
    is_alone = (subscription.fifo or is_lite) and merged.user_agent.language == pb.GOLANG
    subscription.receive_batch_size = 1 if is_alone else _BATCH_SIZE
    subscription.long_polling_timeout.CopyFrom(groups.duration(door.settings.poll_ms_max))
    merged.backoff_policy.CopyFrom(
        groups.backoff_of(
            groups.spec_of(catalog, group_name),
            door.settings.delay_levels_ms,
            merged.user_agent.language,
        )
    )


def _check(asked: pb.Settings, namespace: str) -> None:
    """Raise Illegal or InvalidFilter for settings that no call would be served by."""
    if asked.HasField("client_type") and asked.client_type not in _KNOWN:
        raise Illegal(pb.UNRECOGNIZED_CLIENT_TYPE, "this server knows no such clients")
    for entry in asked.subscription.subscriptions:
        names.topic_of(entry.topic, namespace)
        compile_filter(entry.expression.expression or "*", filter_type_of(entry.expression))


def filter_type_of(expression: pb.FilterExpression) -> FilterType:
    """Return how a filter is read; one that does not say is read as tags."""
    return FilterType.SQL92 if expression.type == pb.SQL else FilterType.TAG
