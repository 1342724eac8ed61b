"""A client of the gRPC door, as small as the protocol allows, and what tests send with it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc

from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.service import SERVICE

ANSWERS: dict[str, Any] = {
    "QueryRoute": pb.QueryRouteResponse,
    "Heartbeat": pb.HeartbeatResponse,
    "SendMessage": pb.SendMessageResponse,
    "QueryAssignment": pb.QueryAssignmentResponse,
    "AckMessage": pb.AckMessageResponse,
    "ForwardMessageToDeadLetterQueue": pb.ForwardMessageToDeadLetterQueueResponse,
    "EndTransaction": pb.EndTransactionResponse,
    "NotifyClientTermination": pb.NotifyClientTerminationResponse,
    "ChangeInvisibleDuration": pb.ChangeInvisibleDurationResponse,
    "RecallMessage": pb.RecallMessageResponse,
    "UpdateOffset": pb.UpdateOffsetResponse,
    "GetOffset": pb.GetOffsetResponse,
    "QueryOffset": pb.QueryOffsetResponse,
    "SyncLiteSubscription": pb.SyncLiteSubscriptionResponse,
}
STREAMS: dict[str, Any] = {
    "ReceiveMessage": pb.ReceiveMessageResponse,
    "PullMessage": pb.PullMessageResponse,
}
ENDPOINTS = pb.Endpoints(scheme=pb.IPv4, addresses=[pb.Address(host="10.1.2.3", port=8081)])
ORDERS = pb.Resource(name="orders")
GROUP = pb.Resource(name="billing")


class Telemetry:
    """One telemetry stream: settings out, commands in."""

    def __init__(self, call: Any) -> None:
        self.call = call

    async def settings(self, settings: pb.Settings) -> pb.TelemetryCommand:
        await self.call.write(pb.TelemetryCommand(settings=settings))
        return await self.command()

    async def command(self) -> pb.TelemetryCommand:
        async with asyncio.timeout(20):
            found: pb.TelemetryCommand = await self.call.read()
        assert found is not grpc.aio.EOF, "the stream has ended"
        return found

    def end(self) -> None:
        self.call.cancel()


class GrpcClient:
    """Calls methods by name; requests and answers are values of the protocol."""

    def __init__(self, channel: grpc.aio.Channel, client_id: str = "client@1@0@x") -> None:
        self._channel = channel
        self.headers: dict[str, str] = {"x-mq-client-id": client_id}

    def named(self, client_id: str, **headers: str) -> "GrpcClient":
        """Return another client on the same connection."""
        found = GrpcClient(self._channel, client_id)
        found.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        return found

    async def call(
        self, name: str, request: Any, *, headers: Mapping[str, str] | None = None
    ) -> Any:
        method = self._channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=ANSWERS[name].FromString,
        )
        return await method(request, metadata=self._metadata(headers), timeout=20)

    def stream(self, name: str, request: Any, *, timeout: float = 20) -> Any:
        method = self._channel.unary_stream(
            f"/{SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=STREAMS[name].FromString,
        )
        return method(request, metadata=self._metadata(None), timeout=timeout)

    @asynccontextmanager
    async def telemetry(self) -> AsyncIterator[Telemetry]:
        method = self._channel.stream_stream(
            f"/{SERVICE}/Telemetry",
            request_serializer=pb.TelemetryCommand.SerializeToString,
            response_deserializer=pb.TelemetryCommand.FromString,
        )
        call = method(metadata=self._metadata(None))
        try:
            yield Telemetry(call)
        finally:
            call.cancel()

    def _metadata(self, headers: Mapping[str, str] | None) -> Any:
        return tuple((self.headers if headers is None else headers).items())

    # --- what most tests do --------------------------------------------------------------------

    async def send(self, *messages: pb.Message) -> pb.SendMessageResponse:
        request = pb.SendMessageRequest(messages=messages)
        answer: pb.SendMessageResponse = await self.call("SendMessage", request)
        return answer

    async def frames(self, request: pb.ReceiveMessageRequest) -> list[pb.ReceiveMessageResponse]:
        return [frame async for frame in self.stream("ReceiveMessage", request)]

    async def received(self, **values: Any) -> list[pb.Message]:
        """Return the messages of one receive; its status must be one of the two of success."""
        first, *others = await self.frames(a_receive(**values))
        assert first.status.code in (pb.OK, pb.MESSAGE_NOT_FOUND), first.status.message
        return [frame.message for frame in others if frame.WhichOneof("content") == "message"]

    async def ack(self, *messages: pb.Message, group: pb.Resource = GROUP) -> pb.AckMessageResponse:
        request = pb.AckMessageRequest(
            group=group,
            topic=ORDERS,
            entries=[
                pb.AckMessageEntry(
                    message_id=message.system_properties.message_id,
                    receipt_handle=message.system_properties.receipt_handle,
                )
                for message in messages
            ],
        )
        answer: pb.AckMessageResponse = await self.call("AckMessage", request)
        return answer


def a_message(body: bytes = b"hello", **values: Any) -> pb.Message:
    """Return a message of topic `orders`; values are system properties, or `topic` and such."""
    topic = values.pop("topic", ORDERS)
    user_properties = values.pop("user_properties", {})
    values.setdefault("message_id", "01AABBCCDDEEFF00110022334400000001")
    values.setdefault("message_type", pb.NORMAL)
    return pb.Message(
        topic=topic,
        body=body,
        user_properties=user_properties,
        system_properties=pb.SystemProperties(**values),
    )


def a_lite_message(body: bytes, lite_topic: str, **values: Any) -> pb.Message:
    """Return a message for a lite topic, of `inbox` unless values say otherwise."""
    values.setdefault("topic", pb.Resource(name="inbox"))
    return a_message(body, lite_topic=lite_topic, message_type=pb.LITE, **values)


def a_sync(*names: str, **values: Any) -> pb.SyncLiteSubscriptionRequest:
    """Return what adds lite topics of `inbox` to a client's set, unless values say otherwise."""
    request = {
        "action": pb.PARTIAL_ADD,
        "group": GROUP,
        "topic": pb.Resource(name="inbox"),
        "lite_topic_set": names,
        **values,
    }
    return pb.SyncLiteSubscriptionRequest(**request)


def a_receive(**values: Any) -> pb.ReceiveMessageRequest:
    """Return a receive that waits for nothing and is renewed, unless values say otherwise."""
    topic = values.pop("topic", ORDERS)
    queue = values.pop("queue", -1)
    expression = values.pop("filter", None)
    if isinstance(expression, str):
        expression = pb.FilterExpression(type=pb.TAG, expression=expression)
    request = {
        "group": GROUP,
        "message_queue": pb.MessageQueue(topic=topic, id=queue),
        "batch_size": 32,
        "filter_expression": expression,
        "auto_renew": "invisible_duration" not in values,
        **values,
    }
    if "long_polling_timeout" not in request:
        request["long_polling_timeout"] = {"seconds": 0}
    return pb.ReceiveMessageRequest(**request)


def a_consumer(**values: Any) -> pb.Settings:
    """Return the settings of a consumer of topic `orders` in group `billing`."""
    return pb.Settings(
        client_type=values.pop("client_type", pb.PUSH_CONSUMER),
        user_agent=pb.UA(language=values.pop("language", pb.JAVA), version="5.2.1"),
        subscription=pb.Subscription(
            group=values.pop("group", GROUP),
            subscriptions=[
                pb.SubscriptionEntry(
                    topic=values.pop("topic", ORDERS),
                    expression=pb.FilterExpression(type=pb.TAG, expression="*"),
                )
            ],
        ),
        **values,
    )


def a_producer(*topics: str) -> pb.Settings:
    """Return the settings of a producer."""
    return pb.Settings(
        client_type=pb.PRODUCER,
        publishing=pb.Publishing(topics=[pb.Resource(name=name) for name in topics]),
    )


def bodies(messages: list[pb.Message]) -> list[bytes]:
    """Return the bodies of messages."""
    return [message.body for message in messages]
