"""The gRPC door of a whole broker: beside REST and the SDK, by TLS, over a kill and at the end."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from mqclient import Producer, SimpleConsumer

from apps.bridge.exits import Exit
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.service import SERVICE
from tests.certificates import self_signed
from tests.doors.grpc.client import ANSWERS, a_message, a_producer, a_receive
from tests.process.product import Broker, free_port

pytestmark = pytest.mark.process

HEADERS = (("x-mq-client-id", "process@1"),)
HOSTILE = "<b>'\"\\%s \u202e\U0001f4a5"


class Caller:
    """A blocking client on a channel of its own."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel

    def call(self, name: str, request: Any) -> Any:
        method = self.channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=ANSWERS[name].FromString,
        )
        return method(request, metadata=HEADERS, timeout=60, wait_for_ready=True)

    def receive(self, **values: Any) -> list[pb.Message]:
        method = self.channel.unary_stream(
            f"/{SERVICE}/ReceiveMessage",
            request_serializer=pb.ReceiveMessageRequest.SerializeToString,
            response_deserializer=pb.ReceiveMessageResponse.FromString,
        )
        frames = method(a_receive(**values), metadata=HEADERS, timeout=60, wait_for_ready=True)
        return [frame.message for frame in frames if frame.WhichOneof("content") == "message"]

    def send(self, message: pb.Message) -> pb.SendMessageResponse:
        request = pb.SendMessageRequest(messages=[message])
        answer: pb.SendMessageResponse = self.call("SendMessage", request)
        return answer

    def telemetry(self) -> Any:
        """Open a stream; return it and what ends its writing."""
        ended = threading.Event()

        def commands() -> Iterator[pb.TelemetryCommand]:
            yield pb.TelemetryCommand(settings=a_producer("orders"))
            ended.wait(60)

        method = self.channel.stream_stream(
            f"/{SERVICE}/Telemetry",
            request_serializer=pb.TelemetryCommand.SerializeToString,
            response_deserializer=pb.TelemetryCommand.FromString,
        )
        return method(commands(), metadata=HEADERS, wait_for_ready=True), ended


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path / "data")
    made.prepare(orders=4)
    yield made
    # Some tests have stopped it, or it refused to start.
    with suppress(AssertionError):
        made.kill()


def started(broker: Broker, **variables: str) -> tuple[Caller, int]:
    port = free_port()
    broker.start(MQWEB_GRPC_PORT=str(port), **variables)
    return Caller(grpc.insecure_channel(f"127.0.0.1:{port}")), port


def test_messages_cross_between_grpc_and_the_sdk(broker: Broker) -> None:
    caller, _ = started(broker)
    server = f"http://127.0.0.1:{broker.port}"
    properties = {"colour": HOSTILE, "empty": ""}

    sent = caller.send(
        a_message(
            HOSTILE.encode(), message_id="by-grpc", tag="t", keys=["k1", "k2"],
            message_group="g", message_type=pb.FIFO, user_properties=properties,
        )
    )  # fmt: skip
    with SimpleConsumer("orders", "readers", server) as consumer:
        (by_sdk,) = consumer.receive(wait_ms=10_000)
        consumer.ack(by_sdk)
    with Producer(server) as producer:
        result = producer.send(
            "orders", HOSTILE, tag="t", keys=["k1", "k2"], sharding_key="g", properties=properties
        )
    (by_grpc,) = caller.receive(
        group=pb.Resource(name="readers"), long_polling_timeout={"seconds": 10}
    )
    system = by_grpc.system_properties

    assert sent.entries[0].message_id == by_sdk.message_id == "by-grpc"
    assert by_sdk.body == by_grpc.body == HOSTILE.encode()
    assert (by_sdk.tag, tuple(by_sdk.keys)) == (system.tag, tuple(system.keys))
    assert {name: by_sdk.properties[name] for name in properties} == properties
    assert dict(by_grpc.user_properties) == properties
    assert (by_sdk.sharding_key, system.message_group) == ("g", "g")
    # One group of messages is one queue, whichever door they come by.
    assert by_sdk.queue == system.queue_id == result.queue
    assert system.message_id == result.message_id


def test_a_killed_broker_leaves_nothing_stuck(broker: Broker) -> None:
    asked_soon = {"MQWEB_TRANSACTION_IMMUNITY_MS": "0", "MQWEB_TRANSACTION_CHECK_MS": "1000"}
    caller, port = started(broker, **asked_soon)
    caller.send(a_message(b"held", message_id="held"))
    (held,) = caller.receive(invisible_duration={"seconds": 10})
    half = caller.send(a_message(b"half", message_id="half", message_type=pb.TRANSACTION))
    stream, ended = caller.telemetry()
    assert next(stream).settings.publishing.max_body_size

    broker.kill()
    ended.set()
    broker.start(MQWEB_GRPC_PORT=str(port), **asked_soon)
    again, ended = caller.telemetry()
    commands = iter(again)
    first = next(commands)
    asked = next(commands).recover_orphaned_transaction_command
    ended.set()
    end = caller.call(
        "EndTransaction",
        pb.EndTransactionRequest(
            topic=pb.Resource(name="orders"),
            transaction_id=asked.transaction_id,
            resolution=pb.COMMIT,
            source=pb.SOURCE_SERVER_CHECK,
        ),
    )
    found = []
    while len(found) < 2:
        found += caller.receive(long_polling_timeout={"seconds": 15})

    assert first.status.code == pb.OK
    assert asked.transaction_id == half.entries[0].transaction_id
    assert end.status.code == pb.OK
    assert {message.body for message in found} == {b"held", b"half"}
    attempts = {m.body: m.system_properties.delivery_attempt for m in found}
    assert attempts == {b"held": 2, b"half": 1}
    assert held.system_properties.delivery_attempt == 1


def test_a_broker_that_stops_answers_who_waits_and_ends_the_streams(broker: Broker) -> None:
    caller, _ = started(broker)
    stream, ended = caller.telemetry()
    next(stream)
    answers: list[Any] = []

    def wait() -> None:
        try:
            answers.append(caller.receive(long_polling_timeout={"seconds": 20}))
        except grpc.RpcError as error:
            answers.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    caller.send(a_message(b"now", topic=pb.Resource(name="orders")))
    waiting.join(60)
    second = threading.Thread(target=wait)
    second.start()
    code = broker.stop()
    second.join(60)
    ended.set()

    assert code == 0
    assert [message.body for message in answers[0]] == [b"now"]
    assert not second.is_alive()
    assert len(answers) == 2
    assert "Traceback" not in broker.log.read_text()
    with pytest.raises(grpc.RpcError):
        next(stream)


def test_a_port_that_is_taken_is_told_before_anything_is_opened(broker: Broker) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        broker.launch(MQWEB_GRPC_PORT=str(port))
        code = broker.settled()

    assert code == Exit.REFUSED
    assert f"cannot listen on 127.0.0.1:{port}" in broker.log.read_text()
    assert broker.openings() == []


def test_the_same_door_over_tls(broker: Broker, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    port = free_port()
    broker.start(
        MQWEB_GRPC_PORT="0",
        MQWEB_GRPC_TLS_PORT=str(port),
        MQWEB_GRPC_TLS_CERT=str(certificate),
        MQWEB_GRPC_TLS_KEY=str(key),
    )
    trusted = grpc.ssl_channel_credentials(certificate.read_bytes())
    caller = Caller(grpc.secure_channel(f"localhost:{port}", trusted))

    caller.send(a_message(b"secret"))
    (found,) = caller.receive()

    assert found.body == b"secret"


def test_a_certificate_that_cannot_be_read_is_told(broker: Broker, tmp_path: Path) -> None:
    broker.launch(
        MQWEB_GRPC_PORT="0",
        MQWEB_GRPC_TLS_PORT=str(free_port()),
        MQWEB_GRPC_TLS_CERT=str(tmp_path / "nowhere.pem"),
        MQWEB_GRPC_TLS_KEY=str(tmp_path / "nowhere.key"),
    )

    assert broker.settled() == Exit.REFUSED
    assert "nowhere" in broker.log.read_text()


def test_a_broker_without_a_grpc_port_does_not_load_the_library(broker: Broker) -> None:
    broker.start(MQWEB_GRPC_PORT="0")

    mapped = Path(f"/proc/{broker.pid}/maps").read_text()

    assert "grpc" not in mapped
