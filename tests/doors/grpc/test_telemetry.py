"""Telemetry, Heartbeat and route: what clients are told, and what none of them can do without."""

import grpc
import pytest

from apps.doors.grpc.calls import GrpcDoor
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.engine.local import LocalEngine
from tests.doors.grpc.client import (
    ENDPOINTS,
    GROUP,
    ORDERS,
    GrpcClient,
    a_consumer,
    a_message,
    a_producer,
)


async def told(client: GrpcClient, settings: pb.Settings) -> pb.Settings:
    async with client.telemetry() as telemetry:
        answer = await telemetry.settings(settings)
    assert answer.status.code == pb.OK
    return answer.settings


async def test_a_producer_is_told_all_it_needs(client: GrpcClient) -> None:
    """Node's process ends without an exponential backoff, and a largest body of 0 refuses all."""
    asked = a_producer("orders")
    asked.request_timeout.seconds = 7

    settings = await told(client, asked)

    assert settings.WhichOneof("pub_sub") == "publishing"
    assert settings.publishing.max_body_size == 4 * 1024 * 1024
    assert settings.publishing.validate_message_type
    assert settings.backoff_policy.WhichOneof("strategy") == "exponential_backoff"
    assert settings.backoff_policy.exponential_backoff.multiplier > 1
    assert settings.backoff_policy.max_attempts == 3
    assert not settings.metric.on
    assert settings.HasField("metric")
    # What is the client's stays.
    assert settings.request_timeout.seconds == 7
    assert [topic.name for topic in settings.publishing.topics] == ["orders"]


async def test_a_consumer_is_told_all_it_needs(client: GrpcClient) -> None:
    settings = await told(client, a_consumer())

    assert settings.WhichOneof("pub_sub") == "subscription"
    assert settings.subscription.receive_batch_size == 32
    assert settings.subscription.long_polling_timeout.seconds == 20
    assert settings.subscription.HasField("fifo")
    assert not settings.subscription.fifo
    assert settings.subscription.group == GROUP


@pytest.mark.parametrize(
    ("language", "strategy"),
    [
        (pb.PYTHON, "customized_backoff"),
        (pb.JAVA, "customized_backoff"),
        (pb.GOLANG, "customized_backoff"),
        (pb.NODE_JS, "exponential_backoff"),
        (pb.LANGUAGE_UNSPECIFIED, "customized_backoff"),
    ],
)
async def test_a_consumer_is_told_its_backoff_in_the_words_it_knows(
    client: GrpcClient, language: pb.Language, strategy: str
) -> None:
    policy = (await told(client, a_consumer(language=language))).backoff_policy

    assert policy.WhichOneof("strategy") == strategy
    assert policy.max_attempts == 17
    if strategy == "customized_backoff":
        delays = [delay.seconds for delay in policy.customized_backoff.next]
        assert delays[:5] == [10, 30, 60, 120, 180]
    else:
        assert policy.exponential_backoff.initial.seconds == 10
        assert policy.exponential_backoff.max.seconds == 7200


@pytest.mark.parametrize(
    ("group", "topic", "is_fifo"),
    [
        ("ordered", "orders", True),
        ("twice", "in-order", False),
        ("billing", "orders", False),
        ("billing", "in-order", True),
    ],
)
async def test_a_consumer_is_told_whether_it_works_in_order(
    client: GrpcClient, group: str, topic: str, is_fifo: bool
) -> None:
    settings = await told(
        client, a_consumer(group=pb.Resource(name=group), topic=pb.Resource(name=topic))
    )

    assert settings.subscription.fifo is is_fifo


@pytest.mark.parametrize(
    ("language", "group", "size"),
    [(pb.GOLANG, "ordered", 1), (pb.GOLANG, "billing", 32), (pb.JAVA, "ordered", 32)],
)
async def test_gos_client_has_nothing_behind_a_message_in_order(
    client: GrpcClient, language: pb.Language, group: str, size: int
) -> None:
    """It consumes what lies behind a message that failed before it tries that one again."""
    settings = await told(client, a_consumer(language=language, group=pb.Resource(name=group)))

    assert settings.subscription.receive_batch_size == size


async def test_every_settings_frame_is_answered(client: GrpcClient) -> None:
    async with client.telemetry() as telemetry:
        answers = [await telemetry.settings(a_consumer()) for _ in range(3)]

    assert [answer.status.code for answer in answers] == [pb.OK] * 3


async def test_what_else_a_client_tells_is_left_unanswered(client: GrpcClient) -> None:
    async with client.telemetry() as telemetry:
        await telemetry.call.write(
            pb.TelemetryCommand(thread_stack_trace=pb.ThreadStackTrace(nonce="n"))
        )
        answer = await telemetry.settings(a_producer())

    assert answer.WhichOneof("command") == "settings"


@pytest.mark.parametrize(
    "settings",
    [
        pb.Settings(client_type=77),  # type: ignore[arg-type]
        a_consumer(group=pb.Resource(name="a/b")),
        a_producer("%RETRY%g"),
        pb.Settings(
            subscription=pb.Subscription(
                subscriptions=[
                    pb.SubscriptionEntry(
                        topic=ORDERS,
                        expression=pb.FilterExpression(type=pb.SQL, expression="a >"),
                    )
                ]
            )
        ),
    ],
    ids=["kind", "group", "topic", "filter"],
)
async def test_settings_that_cannot_be_end_the_stream(
    client: GrpcClient, settings: pb.Settings
) -> None:
    async with client.telemetry() as telemetry:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await telemetry.settings(settings)

    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_stream_ends_when_its_client_has_said_all(
    client: GrpcClient, door: GrpcDoor
) -> None:
    async with client.telemetry() as telemetry:
        await telemetry.settings(a_producer())
        (session,) = door.sessions
        assert len(session.streams) == 1

        await telemetry.call.done_writing()
        end = await telemetry.call.read()

    assert end is grpc.aio.EOF
    assert session.streams == []


async def test_a_heartbeat_before_any_settings_is_taken(client: GrpcClient) -> None:
    """After a restart of the server clients send heartbeats before they say again what they do."""
    for kind in (pb.PRODUCER, pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.PULL_CONSUMER):
        answer = await client.call("Heartbeat", pb.HeartbeatRequest(group=GROUP, client_type=kind))
        assert answer.status.code == pb.OK


@pytest.mark.parametrize("kind", [pb.CLIENT_TYPE_UNSPECIFIED, 77])
async def test_a_heartbeat_of_an_unknown_kind_is_refused(client: GrpcClient, kind: int) -> None:
    answer = await client.call("Heartbeat", pb.HeartbeatRequest(client_type=kind))

    assert answer.status.code == pb.UNRECOGNIZED_CLIENT_TYPE


async def test_a_client_that_ends_is_forgotten(client: GrpcClient, door: GrpcDoor) -> None:
    await client.send(a_message())
    assert [session.client_id for session in door.sessions] == [client.headers["x-mq-client-id"]]

    # Go names a group without a name where it has none.
    for group in (None, pb.Resource()):
        request = pb.NotifyClientTerminationRequest(group=group)
        assert (await client.call("NotifyClientTermination", request)).status.code == pb.OK

    assert list(door.sessions) == []


async def test_what_a_client_says_of_itself_is_kept(client: GrpcClient, door: GrpcDoor) -> None:
    other = client.named("n@1", x_mq_language="HTTP", x_mq_client_version="1.0.8")

    await other.call("Heartbeat", pb.HeartbeatRequest(client_type=pb.PRODUCER))

    (session,) = door.sessions
    assert (session.language, session.version, session.address) == ("HTTP", "1.0.8", "127.0.0.1")


async def test_operators_see_language_version_and_address_of_a_client(
    client: GrpcClient, engine: LocalEngine
) -> None:
    """Node says HTTP in its headers, and what it is in its settings."""
    node = client.named("n@1", x_mq_language="HTTP", x_mq_client_version="1.0.8")
    await node.received()
    (before,) = engine.clients()
    async with node.telemetry() as telemetry:
        await telemetry.settings(a_consumer(language=pb.NODE_JS))
    await node.received()

    (after,) = engine.clients()

    assert (before.software, before.address) == ("HTTP 1.0.8", "127.0.0.1")
    assert (after.client_id, after.software) == ("n@1", "NODE_JS 5.2.1")


# --- route ---------------------------------------------------------------------------------------


async def route(
    client: GrpcClient, name: str = "orders", **values: object
) -> pb.QueryRouteResponse:
    request = {"topic": pb.Resource(name=name), "endpoints": ENDPOINTS, **values}
    answer: pb.QueryRouteResponse = await client.call(
        "QueryRoute",
        pb.QueryRouteRequest(**request),  # type: ignore[arg-type]
    )
    return answer


async def test_a_route_leads_back_to_where_the_client_came_by(client: GrpcClient) -> None:
    answer = await route(client)

    assert answer.status.code == pb.OK
    assert [queue.id for queue in answer.message_queues] == [0, 1, 2, 3]
    assert {queue.broker.id for queue in answer.message_queues} == {0}
    assert {queue.broker.name for queue in answer.message_queues} == {"mqweb"}
    assert {queue.permission for queue in answer.message_queues} == {pb.READ_WRITE}
    assert all(queue.broker.endpoints == ENDPOINTS for queue in answer.message_queues)


@pytest.mark.parametrize(
    ("hosts", "scheme", "count"),
    [
        (["10.0.0.1", "10.0.0.2"], pb.IPv4, 2),
        (["::1"], pb.IPv6, 1),
        (["mq.example.com"], pb.DOMAIN_NAME, 1),
        # A name is one address, for all that is asked.
        (["mq.example.com", "10.0.0.1"], pb.DOMAIN_NAME, 1),
    ],
)
async def test_the_scheme_is_that_of_the_addresses(
    client: GrpcClient, hosts: list[str], scheme: pb.AddressScheme, count: int
) -> None:
    """Python makes an empty target of an unspecified one."""
    asked = pb.Endpoints(addresses=[pb.Address(host=host, port=8081) for host in hosts])

    found = (await route(client, endpoints=asked)).message_queues[0].broker.endpoints

    assert (found.scheme, len(found.addresses)) == (scheme, count)


@pytest.mark.parametrize(
    "endpoints",
    [
        pb.Endpoints(),
        pb.Endpoints(addresses=[pb.Address(host="", port=1)]),
        pb.Endpoints(addresses=[pb.Address(host="h", port=0)]),
        pb.Endpoints(addresses=[pb.Address(host="h", port=70_000)]),
    ],
)
async def test_a_route_needs_an_endpoint(client: GrpcClient, endpoints: pb.Endpoints) -> None:
    assert (await route(client, endpoints=endpoints)).status.code == pb.ILLEGAL_ACCESS_POINT


@pytest.mark.parametrize(
    ("name", "types", "permission"),
    [
        ("normal", [pb.NORMAL], pb.READ_WRITE),
        ("in-order", [pb.FIFO], pb.READ_WRITE),
        ("later", [pb.DELAY], pb.READ_WRITE),
        ("both", [pb.TRANSACTION], pb.READ_WRITE),
        (
            "closed",
            [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION, pb.PRIORITY],
            pb.READ,
        ),
        (
            "blind",
            [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION, pb.PRIORITY],
            pb.WRITE,
        ),
    ],
)
async def test_a_route_says_what_a_topic_takes(
    client: GrpcClient, name: str, types: list[int], permission: int
) -> None:
    queue = (await route(client, name)).message_queues[0]

    assert list(queue.accept_message_types) == types
    assert queue.permission == permission


async def test_a_topic_that_is_not_there_is_a_status(client: GrpcClient) -> None:
    assert (await route(client, "nope")).status.code == pb.TOPIC_NOT_FOUND
    assert (await route(client, "a/b")).status.code == pb.ILLEGAL_TOPIC


async def assignment(client: GrpcClient, group: str, topic: str) -> pb.QueryAssignmentResponse:
    answer: pb.QueryAssignmentResponse = await client.call(
        "QueryAssignment",
        pb.QueryAssignmentRequest(
            topic=pb.Resource(name=topic), group=pb.Resource(name=group), endpoints=ENDPOINTS
        ),
    )
    return answer


@pytest.mark.parametrize(
    ("group", "topic", "queues"),
    [
        ("billing", "orders", [-1]),
        ("ordered", "orders", [0, 1, 2, 3]),
        ("billing", "in-order", [0, 1, 2, 3]),
    ],
)
async def test_all_members_of_a_group_are_assigned_the_same(
    client: GrpcClient, group: str, topic: str, queues: list[int]
) -> None:
    """A list that changes makes clients drop what they hold."""
    first = await assignment(client, group, topic)
    second = await assignment(client.named("other"), group, topic)

    assert [found.message_queue.id for found in first.assignments] == queues
    assert first == second


async def test_what_may_not_be_read_is_assigned_to_nobody(client: GrpcClient) -> None:
    assert (await assignment(client, "billing", "blind")).status.code == pb.FORBIDDEN
    assert (await assignment(client, "billing", "nope")).status.code == pb.TOPIC_NOT_FOUND


# --- namespaces ----------------------------------------------------------------------------------


async def test_a_namespace_is_part_of_the_name_said_in_either_way(client: GrpcClient) -> None:
    """Node names it in a header only, in most calls; the others in every resource as well."""
    within = pb.Resource(resource_namespace="shop", name="orders")
    by_header = client.named("n@1", x_mq_namespace="shop")

    assert (await client.send(a_message(b"1", topic=within))).status.code == pb.OK
    assert (await by_header.send(a_message(b"2"))).status.code == pb.OK
    assert (await by_header.send(a_message(b"3", topic=within))).status.code == pb.OK
    found = await by_header.received()
    group = pb.Resource(resource_namespace="shop", name="billing")
    nothing = await client.received(topic=within, group=group)

    assert sorted(message.body for message in found) == [b"1", b"2", b"3"]
    # The same group, so nothing is left; and no name shows its namespace twice.
    assert nothing == []
    assert found[0].topic == within
    assert await client.received() == []


async def test_a_route_names_a_topic_as_it_was_asked_for(client: GrpcClient) -> None:
    """Node receives from the name in the route, and names its namespace beside it again."""
    by_header = client.named("n@1", x_mq_namespace="shop")
    asked = pb.Resource(name="orders")
    within = pb.Resource(resource_namespace="shop", name="orders")

    found = await route(by_header, topic=asked)
    other = await route(client, topic=within)

    assert {queue.topic.SerializeToString() for queue in found.message_queues} == {
        asked.SerializeToString()
    }
    assert {queue.topic.SerializeToString() for queue in other.message_queues} == {
        within.SerializeToString()
    }
    # A name that has its namespace already is not given it twice.
    full = pb.Resource(name="shop%orders")
    assert (await by_header.send(a_message(topic=full))).status.code == pb.OK


async def test_a_topic_without_the_namespace_is_another_one(client: GrpcClient) -> None:
    by_header = client.named("n@1", x_mq_namespace="nowhere")

    assert (await by_header.send(a_message())).status.code == pb.TOPIC_NOT_FOUND
