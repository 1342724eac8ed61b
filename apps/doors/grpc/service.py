"""The methods of the service: what each takes, answers, and who carries it out.

The only module that sees a call from its first to its last message, and so the only one that may
catch what nobody expected.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import grpc

from apps.access.gate import Denied, Knock, Rights
from apps.doors.grpc import (
    lite,
    producing,
    pulling,
    recalling,
    receiving,
    route,
    settling,
    telemetry,
    transactions,
)
from apps.doors.grpc.calls import REQUEST_ID, Call, GrpcDoor, call_of, headers_of, peer_of
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.sessions import Stream
from apps.doors.grpc.statuses import status_of
from apps.doors.guard.limited import account_name
from apps.doors.http.inflight import Share
from apps.engine.errors import Busy

SERVICE = "apache.rocketmq.v2.MessagingService"

Handler = Callable[[GrpcDoor, Call, Any], Awaitable[object]]

_UNARY: dict[str, tuple[Any, Any, Handler]] = {
    "QueryRoute": (pb.QueryRouteRequest, pb.QueryRouteResponse, route.query_route),
    "Heartbeat": (pb.HeartbeatRequest, pb.HeartbeatResponse, telemetry.heartbeat),
    "SendMessage": (pb.SendMessageRequest, pb.SendMessageResponse, producing.send_message),
    "QueryAssignment": (
        pb.QueryAssignmentRequest,
        pb.QueryAssignmentResponse,
        route.query_assignment,
    ),
    "AckMessage": (pb.AckMessageRequest, pb.AckMessageResponse, settling.ack_message),
    "ForwardMessageToDeadLetterQueue": (
        pb.ForwardMessageToDeadLetterQueueRequest,
        pb.ForwardMessageToDeadLetterQueueResponse,
        settling.forward_to_dead_letters,
    ),
    "EndTransaction": (
        pb.EndTransactionRequest,
        pb.EndTransactionResponse,
        transactions.end_transaction,
    ),
    "RecallMessage": (
        pb.RecallMessageRequest,
        pb.RecallMessageResponse,
        recalling.recall_message,
    ),
    "UpdateOffset": (pb.UpdateOffsetRequest, pb.UpdateOffsetResponse, pulling.update_offset),
    "GetOffset": (pb.GetOffsetRequest, pb.GetOffsetResponse, pulling.get_offset),
    "QueryOffset": (pb.QueryOffsetRequest, pb.QueryOffsetResponse, pulling.query_offset),
    "SyncLiteSubscription": (
        pb.SyncLiteSubscriptionRequest,
        pb.SyncLiteSubscriptionResponse,
        lite.sync_lite_subscription,
    ),
    "NotifyClientTermination": (
        pb.NotifyClientTerminationRequest,
        pb.NotifyClientTerminationResponse,
        telemetry.terminate,
    ),
    "ChangeInvisibleDuration": (
        pb.ChangeInvisibleDurationRequest,
        pb.ChangeInvisibleDurationResponse,
        settling.change_invisible_duration,
    ),
}


def handlers(door: GrpcDoor) -> grpc.GenericRpcHandler:
    """Return the service as a server of grpc.aio takes it."""
    methods = {
        name: grpc.unary_unary_rpc_method_handler(
            _unary(door, name, handler, answer_class),
            request_deserializer=request_class.FromString,
            response_serializer=answer_class.SerializeToString,
        )
        for name, (request_class, answer_class, handler) in _UNARY.items()
    }
    methods["ReceiveMessage"] = grpc.unary_stream_rpc_method_handler(
        _frames(door, "ReceiveMessage", receiving.receive_message, pb.ReceiveMessageResponse),
        request_deserializer=pb.ReceiveMessageRequest.FromString,
        response_serializer=pb.ReceiveMessageResponse.SerializeToString,
    )
    methods["PullMessage"] = grpc.unary_stream_rpc_method_handler(
        _frames(door, "PullMessage", pulling.pull_message, pb.PullMessageResponse),
        request_deserializer=pb.PullMessageRequest.FromString,
        response_serializer=pb.PullMessageResponse.SerializeToString,
    )
    methods["Telemetry"] = grpc.stream_stream_rpc_method_handler(
        _telemetry(door),
        request_deserializer=pb.TelemetryCommand.FromString,
        response_serializer=pb.TelemetryCommand.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(SERVICE, methods)


def _unary(door: GrpcDoor, name: str, handler: Handler, answer_class: Any) -> Any:
    async def method(request: Any, context: Any) -> Any:
        headers = headers_of(context)
        request_id = _request_id(door, headers)
        share = Share(door.door.in_flight)
        try:
            call = call_of(door, context, request_id, headers, share)
            with _counted(door, call, share, request.ByteSize()):
                return await handler(door, call, request)
        except Exception as error:  # The main loop of the door: the call ends, the door does not.
            _tell(door, error, name, context, headers)
            return answer_class(status=status_of(error, request_id))
        finally:
            share.release()

    return method


def _frames(door: GrpcDoor, name: str, handler: Any, answer_class: Any) -> Any:
    async def method(request: Any, context: Any) -> None:
        headers = headers_of(context)
        request_id = _request_id(door, headers)
        share = Share(door.door.in_flight)
        try:
            call = call_of(door, context, request_id, headers, share)
            with _counted(door, call, share, request.ByteSize()):
                await handler(door, call, request, context.write)
        except Exception as error:  # As above.
            _tell(door, error, name, context, headers)
            await context.write(answer_class(status=status_of(error, request_id)))
        finally:
            share.release()

    return method


def _telemetry(door: GrpcDoor) -> Any:
    async def method(commands: AsyncIterator[pb.TelemetryCommand], context: Any) -> None:
        headers = headers_of(context)
        request_id = _request_id(door, headers)
        share = Share(door.door.in_flight)
        stream = Stream(context.write)
        try:
            call = call_of(door, context, request_id, headers, share)
            # Before any settings: a client that opens its stream again may not send them soon.
            call.session.streams.append(stream)
            # Its settings are answered before it is asked anything, where it sends them at once.
            soon = asyncio.get_running_loop().call_later(
                door.settings.first_settings_ms / 1000, door.checks.look
            )
            try:
                await door.waits.on(call.rights, _answered(door, call, stream, commands))
            finally:
                soon.cancel()
                call.session.streams.remove(stream)
        except Exception as error:  # As above; a stream has no answer that could say it.
            _tell(door, error, "Telemetry", context, headers)
            status = status_of(error, request_id)
            code = _end_of(status, error)
            await stream.end(lambda: context.abort(code, status.message))

    return method


def _end_of(status: pb.Status, error: Exception) -> grpc.StatusCode:
    """Return what a stream ends with: clients open another one whatever it is."""
    if isinstance(error, Busy):
        return grpc.StatusCode.UNAVAILABLE
    if pb.BAD_REQUEST <= status.code < pb.INTERNAL_ERROR:
        return grpc.StatusCode.INVALID_ARGUMENT
    return grpc.StatusCode.INTERNAL


async def _answered(
    door: GrpcDoor, call: Call, stream: Stream, commands: AsyncIterator[pb.TelemetryCommand]
) -> None:
    async for command in commands:
        await telemetry.answer(door, call, stream, command)


def _request_id(door: GrpcDoor, headers: dict[str, str]) -> str:
    offered = headers.get(REQUEST_ID)
    return door.door.request_ids.of(offered.encode() if offered else None).decode()


def _tell(
    door: GrpcDoor, error: Exception, name: str, context: Any, headers: dict[str, str]
) -> None:
    """Tell the gate of a denial, with where its call came from."""
    if isinstance(error, Denied) and door.door.gate is not None:
        peer = peer_of(context.peer())
        knock = Knock(
            source=peer[0] if peer else "",
            agent=headers.get("user-agent", ""),
            path=f"/{SERVICE}/{name}",
        )
        door.door.gate.tell(error, knock)


@contextlib.contextmanager
def _counted(door: GrpcDoor, call: Call, share: Share, size_bytes: int) -> Iterator[None]:
    """Count a call among those of its client, and its bytes among those in memory."""
    share.take(size_bytes)
    client_limits = door.client_limits
    if client_limits is None:
        yield
        return
    rights = call.rights
    name = account_name(rights) if isinstance(rights, Rights) else call.session.address
    client_limits.enter(name, size_bytes)
    try:
        yield
    finally:
        client_limits.leave(name)
