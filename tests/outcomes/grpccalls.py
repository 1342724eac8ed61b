"""What a client by RocketMQ's protocol asks, and what its answers mean for a history.

The roles are those of clients by HTTP; only the way to the broker is another. Knows the protocol
and no product code: an answer of gRPC's own leaves open what happened, a typed refusal does not.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from mqclient.rocketmq.connections import SERVICE
from mqclient.rocketmq.protos import rocketmq_pb2 as pb

from tests.histories.events import Verb
from tests.histories.recorder import Recorder, Running
from tests.outcomes.calls import Ask, Reply, Teller, body_of, digest_of, id_of, wall_ms

_DONE = frozenset({pb.OK, pb.MULTIPLE_RESULTS})
_FIRST_FAILURE = 50_000
# By the words the HTTP contract has for them, which judges know.
_CODES = {
    pb.INVALID_RECEIPT_HANDLE: "expired",
    pb.PRECONDITION_FAILED: "transaction_decided",
    pb.TOO_MANY_REQUESTS: "overloaded",
    pb.HA_NOT_AVAILABLE: "stopping",
}
_RECALLS = {
    pb.OK: "cancelled",
    pb.PRECONDITION_FAILED: "delivered",
    pb.MESSAGE_NOT_FOUND: "unknown",
}
_TIMEOUT_S = 60.0
_AGAIN_S = 0.2
# The shortest time that a receive may ask for; it is changed to a shorter one afterwards.
_INVISIBLE_MS_MIN = 10_000
_WAIT_MS = 200


def settle(running: Running, status: pb.Status | None, **told: Any) -> bool:
    """Write down what became of an operation; say whether it was done."""
    if status is None:
        running.info("unanswered")
        return False
    if status.code in _DONE:
        running.ok(**told)
        return True
    code = _CODES.get(status.code, pb.Code.Name(status.code))
    if status.code < _FIRST_FAILURE or code == "stopping":
        running.fail(code)
    else:
        running.info(code)
    return False


class GrpcTeller(Teller):
    """A client by RocketMQ's protocol; what that cannot say is asked by HTTP."""

    def __init__(self, name: str, ask: Ask, recorder: Recorder, endpoint: str) -> None:
        """Be a client of a name of its own; connect with the first request."""
        super().__init__(name, ask, recorder)
        self._channel = grpc.insecure_channel(endpoint)
        self._headers = (("x-mq-client-id", name),)
        self.check_count = 0
        """How often it was asked what became of a transaction."""

    def close(self) -> None:
        """Leave without a word, as a process that ends."""
        self._channel.close()

    def send(
        self, topic: str, ids: Sequence[str], *, first_number: int | None = None
    ) -> Reply | None:
        """Send messages in one request."""
        assert first_number is None, "this protocol has no numbers"
        written = [[id_, None, None, digest_of(body_of(id_))] for id_ in ids]
        running = self.recorder.invoke(Verb.SEND, producer=self.name, topic=topic, messages=written)
        answer = self._send([_message(topic, id_) for id_ in ids])
        settle(
            running, _status(answer),
            places=[[0, entry.offset] for entry in answer.entries] if answer else [],
            repeats=[False for _ in ids],
        )  # fmt: skip
        return None

    def delay(self, topic: str, id_: str, **asked: int) -> str | None:
        """Send a message that is due at a time or after a while; return its handle."""
        due_ms = asked.get("deliver_at") or wall_ms() + asked["delay_ms"]
        running = self.recorder.invoke(
            Verb.DELAY, producer=self.name, topic=topic,
            messages=[[id_, digest_of(body_of(id_)), due_ms]],
        )  # fmt: skip
        message = _message(topic, id_, message_type=pb.DELAY)
        message.system_properties.delivery_timestamp.CopyFrom(_moment(due_ms))
        answer = self._send([message])
        if not settle(running, _status(answer)):
            return None
        handle: str = answer.entries[0].recall_handle
        return handle

    def recall(self, id_: str, handle: str, topic: str = "later") -> None:
        """Ask for a delayed message back."""
        running = self.recorder.invoke(Verb.RECALL, id=id_)
        request = pb.RecallMessageRequest(topic=pb.Resource(name=topic), recall_handle=handle)
        answer = self._call("RecallMessage", request, pb.RecallMessageResponse)
        if answer is not None and answer.status.code in _RECALLS:
            running.ok(outcome=_RECALLS[answer.status.code])
        else:
            settle(running, _status(answer))

    def begin(self, topic: str, id_: str, group: str) -> str | None:
        """Store a half message; return the transaction's id. The protocol has no such groups."""
        del group
        running = self.recorder.invoke(
            Verb.BEGIN, producer=self.name, topic=topic, id=id_, digest=digest_of(body_of(id_))
        )
        answer = self._send([_message(topic, id_, message_type=pb.TRANSACTION)])
        if not settle(running, _status(answer)):
            return None
        assert answer is not None
        transaction: str = answer.entries[0].transaction_id
        return transaction

    def end(
        self, id_: str, transaction: str, outcome: str, *, is_asked: bool = False
    ) -> Reply | None:
        """Commit or roll back, by itself or because it was asked."""
        running = self.recorder.invoke(Verb.END, id=id_, outcome=outcome)
        request = pb.EndTransactionRequest(
            topic=pb.Resource(name="paid"),
            message_id=id_,
            transaction_id=transaction,
            resolution=pb.COMMIT if outcome == "committed" else pb.ROLLBACK,
            source=pb.SOURCE_SERVER_CHECK if is_asked else pb.SOURCE_CLIENT,
        )
        answer = self._call("EndTransaction", request, pb.EndTransactionResponse)
        # Whether it was a repeat is not told, nor where the message went.
        settle(running, _status(answer), repeat=True, place=None)
        return None if answer is None else Reply(answer.status.code, None)

    def receive(self, group: str, topic: str, *, invisible_ms: int) -> list[dict[str, Any]]:
        """Take messages, and change how long they are hidden to a time that is soon over."""
        request = pb.ReceiveMessageRequest(
            group=pb.Resource(name=group),
            message_queue=pb.MessageQueue(topic=pb.Resource(name=topic), id=-1),
            batch_size=16,
            invisible_duration=_duration(_INVISIBLE_MS_MIN),
            long_polling_timeout=_duration(_WAIT_MS),
        )
        found = []
        for message in self._received(request):
            system = message.system_properties
            shown = {
                "topic": topic,
                "queue": system.queue_id,
                "offset": system.queue_offset,
                "body": message.body.decode(),
                "receipt_handle": system.receipt_handle,
            }
            shown["running"] = self.deliver(group, shown, invisible_ms=invisible_ms)
            found.append(shown)
        for shown in found:
            self._hide(group, shown, invisible_ms)
        return found

    def ack(self, group: str, message: dict[str, Any]) -> None:
        """Acknowledge a message."""
        self.ack_all(group, [message])

    def ack_all(self, group: str, messages: Sequence[dict[str, Any]]) -> None:
        """Acknowledge messages with one request; each is an operation."""
        runnings = [
            self.recorder.invoke(
                Verb.ACK, group=group, client=self.name, ids=[id_of(message["body"])]
            )
            for message in messages
        ]
        request = pb.AckMessageRequest(
            group=pb.Resource(name=group),
            topic=pb.Resource(name=messages[0]["topic"]),
            entries=[
                pb.AckMessageEntry(
                    message_id=id_of(message["body"]), receipt_handle=message["receipt_handle"]
                )
                for message in messages
            ],
        )
        answer = self._call("AckMessage", request, pb.AckMessageResponse)
        for index, running in enumerate(runnings):
            if answer is not None and index < len(answer.entries):
                settle(running, answer.entries[index].status)
            else:
                settle(running, _status(answer))

    def nack(self, group: str, message: dict[str, Any], *, level: int = 0, reason: str) -> None:
        """Make a message a dead letter; what else fails is let run out, as simple consumers do."""
        del reason
        if level >= 0:
            return
        running = self.recorder.invoke(
            Verb.NACK, group=group, client=self.name, ids=[id_of(message["body"])], level=level
        )
        request = pb.ForwardMessageToDeadLetterQueueRequest(
            group=pb.Resource(name=group),
            topic=pb.Resource(name=message["topic"]),
            receipt_handle=message["receipt_handle"],
            message_id=id_of(message["body"]),
        )
        name = "ForwardMessageToDeadLetterQueue"
        answer = self._call(name, request, pb.ForwardMessageToDeadLetterQueueResponse)
        settle(running, _status(answer))

    def checks_by_stream(self, topic: str, until: threading.Event) -> Iterator[tuple[str, str]]:
        """Yield message and transaction of each check of a topic, until the stream breaks."""
        settings = pb.Settings(
            client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[pb.Resource(name=topic)])
        )
        method = self._channel.stream_stream(
            f"{SERVICE}Telemetry",
            request_serializer=pb.TelemetryCommand.SerializeToString,
            response_deserializer=pb.TelemetryCommand.FromString,
        )

        def words() -> Iterator[pb.TelemetryCommand]:
            yield pb.TelemetryCommand(settings=settings)
            # Who has no more to say ends the stream.
            until.wait()

        try:
            for command in method(words(), metadata=self._headers):
                if command.HasField("recover_orphaned_transaction_command"):
                    asked = command.recover_orphaned_transaction_command
                    self.check_count += 1
                    yield id_of(asked.message.body.decode()), asked.transaction_id
        except grpc.RpcError:
            until.wait(_AGAIN_S)

    def _hide(self, group: str, shown: dict[str, Any], invisible_ms: int) -> None:
        request = pb.ChangeInvisibleDurationRequest(
            group=pb.Resource(name=group),
            topic=pb.Resource(name=shown["topic"]),
            receipt_handle=shown["receipt_handle"],
            invisible_duration=_duration(invisible_ms),
            message_id=id_of(shown["body"]),
        )
        answer = self._call("ChangeInvisibleDuration", request, pb.ChangeInvisibleDurationResponse)
        if answer is not None and answer.status.code == pb.OK:
            shown["receipt_handle"] = answer.receipt_handle

    def _send(self, messages: list[pb.Message]) -> Any:
        request = pb.SendMessageRequest(messages=messages)
        return self._call("SendMessage", request, pb.SendMessageResponse)

    def _received(self, request: pb.ReceiveMessageRequest) -> list[pb.Message]:
        method = self._channel.unary_stream(
            f"{SERVICE}ReceiveMessage",
            request_serializer=pb.ReceiveMessageRequest.SerializeToString,
            response_deserializer=pb.ReceiveMessageResponse.FromString,
        )
        found: list[pb.Message] = []
        try:
            found.extend(
                frame.message
                for frame in method(request, metadata=self._headers, timeout=_TIMEOUT_S)
                if frame.WhichOneof("content") == "message"
            )
        except grpc.RpcError:
            # What came before it broke was handed out all the same.
            return found
        return found

    def _call(self, name: str, request: Any, answer: Any) -> Any:
        """Return the answer to a request; None where there is none."""
        method = self._channel.unary_unary(
            SERVICE + name,
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        try:
            return method(request, metadata=self._headers, timeout=_TIMEOUT_S, wait_for_ready=True)
        except grpc.RpcError:
            return None


def _status(answer: Any) -> pb.Status | None:
    if answer is None:
        return None
    status: pb.Status = answer.status
    return status


def _message(topic: str, id_: str, message_type: pb.MessageType = pb.NORMAL) -> pb.Message:
    system = pb.SystemProperties(
        message_id=id_, message_type=message_type, body_encoding=pb.IDENTITY
    )
    return pb.Message(
        topic=pb.Resource(name=topic), system_properties=system, body=body_of(id_).encode()
    )


def _duration(time_ms: int) -> Duration:
    return Duration(seconds=time_ms // 1000, nanos=time_ms % 1000 * 1_000_000)


def _moment(time_ms: int) -> Timestamp:
    return Timestamp(seconds=time_ms // 1000, nanos=time_ms % 1000 * 1_000_000)
