"""A driver of Apache's Python client: commands in as JSON lines, answers and events out.

Knows the official client and the protocol of `tests/conformance/driving.py`, nothing of mqweb. It
runs in a virtual environment of its own, because the client's pins are not the product's.
"""

import base64
import json
import sys
import threading
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType
from rocketmq.v5.consumer.push.lite_push_consumer import LitePushConsumer
from rocketmq.v5.consumer.simple.lite_simple_consumer import LiteSimpleConsumer

_VERDICTS = {
    "commit": TransactionResolution.COMMIT,
    "rollback": TransactionResolution.ROLLBACK,
    "unknown": TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED,
}
_lock = threading.Lock()
# The client prints too; only these lines are the protocol's.
_protocol = sys.stdout
sys.stdout = sys.stderr


def _write(document: dict[str, Any]) -> None:
    with _lock:
        _protocol.write(json.dumps(document) + "\n")
        _protocol.flush()


def _seen(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "message_id": message.message_id,
        "body": base64.b64encode(message.body).decode(),
        "tag": message.tag,
        "keys": sorted(message.keys),
        "properties": dict(message.properties),
        "message_group": message.message_group,
        "lite_topic": message.lite_topic,
        "attempt": message.delivery_attempt,
        "is_corrupted": message.corrupted,
    }


class _Checker(TransactionChecker):
    def __init__(self, name: str, verdict: str) -> None:
        self._name = name
        self._verdict = verdict

    def check(self, message: Message) -> TransactionResolution:
        _write({"event": "check", "name": self._name, "message": _seen(message)})
        return _VERDICTS[self._verdict]


class _Listener(MessageListener):
    """Fails at a body so often as it was told, holds others for ever, and succeeds at the rest."""

    def __init__(self, name: str, failures: dict[str, int], holds: list[str]) -> None:
        self._name = name
        self._failures = dict(failures)
        self._holds = holds
        self._lock = threading.Lock()

    def consume(self, message: Message) -> ConsumeResult:
        text = message.body.decode("utf-8", "replace")
        with self._lock:
            left = self._failures.get(text, 0)
            self._failures[text] = left - 1
        _write(
            {
                "event": "message",
                "name": self._name,
                "message": _seen(message),
                "is_success": left <= 0,
            }
        )
        if text in self._holds:
            threading.Event().wait()
        return ConsumeResult.SUCCESS if left <= 0 else ConsumeResult.FAILURE


class Driver:
    """What the open clients are, and what to do with them."""

    def __init__(self) -> None:
        self._clients: dict[str, Any] = {}
        self._handles: dict[str, Message] = {}
        self._transactions: dict[str, Any] = {}

    def open_producer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Start a producer; with a verdict it can send transactions."""
        verdict = command.get("verdict")
        checker = None if verdict is None else _Checker(command["name"], verdict)
        producer = Producer(
            _configuration(command),
            command["topics"],
            checker=checker,
            tls_enable=bool(command.get("is_tls")),
        )
        self._clients[command["name"]] = producer
        producer.startup()
        return {}

    def send(self, command: dict[str, Any]) -> dict[str, Any]:
        """Send one message."""
        message = Message()
        message.topic = command["topic"]
        message.body = base64.b64decode(command["body"])
        if command.get("tag") is not None:
            message.tag = command["tag"]
        for key in command.get("keys", ()):
            message.keys = key
        for name, value in command.get("properties", {}).items():
            message.add_property(name, value)
        if command.get("message_group") is not None:
            message.message_group = command["message_group"]
        if command.get("deliver_at_ms") is not None:
            message.delivery_timestamp = -(-command["deliver_at_ms"] // 1000)
        if command.get("priority") is not None:
            message.priority = command["priority"]
        if command.get("lite_topic") is not None:
            message.lite_topic = command["lite_topic"]
        producer = self._clients[command["name"]]
        if not command.get("in_transaction"):
            receipt = producer.send(message)
            return {"message_id": receipt.message_id, "recall_handle": receipt.recall_handle}
        transaction = producer.begin_transaction()
        receipt = producer.send(message, transaction)
        self._transactions[receipt.message_id] = transaction
        return {"message_id": receipt.message_id, "transaction": receipt.message_id}

    def end(self, command: dict[str, Any]) -> dict[str, Any]:
        """Commit or roll back a transaction."""
        transaction = self._transactions.pop(command["transaction"])
        (transaction.commit if command["verdict"] == "commit" else transaction.rollback)()
        return {}

    def recall(self, command: dict[str, Any]) -> dict[str, Any]:
        """Take a delayed message back."""
        producer = self._clients[command["name"]]
        answer = producer.recall_message(command["topic"], command["handle"])
        return {"message_id": getattr(answer, "message_id", answer)}

    def open_simple(self, command: dict[str, Any]) -> dict[str, Any]:
        """Start a simple consumer."""
        consumer = SimpleConsumer(
            _configuration(command),
            command["group"],
            _filters(command),
            await_duration=command["wait_s"],
            tls_enable=bool(command.get("is_tls")),
        )
        self._clients[command["name"]] = consumer
        consumer.startup()
        return {}

    def receive(self, command: dict[str, Any]) -> dict[str, Any]:
        """Receive once."""
        consumer = self._clients[command["name"]]
        messages = consumer.receive(command["messages_max"], command["invisible_s"]) or []
        seen = []
        for message in messages:
            handle = f"m{len(self._handles)}"
            self._handles[handle] = message
            seen.append({**_seen(message), "handle": handle})
        return {"messages": seen}

    def ack(self, command: dict[str, Any]) -> dict[str, Any]:
        """Acknowledge a received message."""
        self._clients[command["name"]].ack(self._handles[command["handle"]])
        return {}

    def hide(self, command: dict[str, Any]) -> dict[str, Any]:
        """Change how long a received message stays invisible."""
        consumer = self._clients[command["name"]]
        consumer.change_invisible_duration(self._handles[command["handle"]], command["invisible_s"])
        return {}

    def open_push(self, command: dict[str, Any]) -> dict[str, Any]:
        """Start a push consumer whose listener writes what it sees."""
        listener = _Listener(command["name"], command.get("failures", {}), command.get("holds", []))
        consumer = PushConsumer(
            _configuration(command),
            command["group"],
            listener,
            _filters(command),
            tls_enable=bool(command.get("is_tls")),
        )
        self._clients[command["name"]] = consumer
        consumer.startup()
        return {}

    def open_lite(self, command: dict[str, Any]) -> dict[str, Any]:
        """Start a consumer of lite topics."""
        tls = bool(command.get("is_tls"))
        if command["kind"] == "simple":
            consumer = LiteSimpleConsumer(
                command["topic"],
                _configuration(command),
                command["group"],
                await_duration=command["wait_s"],
                tls_enable=tls,
            )
        else:
            listener = _Listener(command["name"], command.get("failures", {}), [])
            consumer = LitePushConsumer(
                _configuration(command),
                command["group"],
                command["topic"],
                listener,
                tls_enable=tls,
            )
        self._clients[command["name"]] = consumer
        consumer.startup()
        return {}

    def subscribe_lite(self, command: dict[str, Any]) -> dict[str, Any]:
        """Subscribe to a lite topic."""
        self._clients[command["name"]].subscribe_lite(command["lite_topic"])
        return {}

    def unsubscribe_lite(self, command: dict[str, Any]) -> dict[str, Any]:
        """Subscribe to a lite topic no more."""
        self._clients[command["name"]].unsubscribe_lite(command["lite_topic"])
        return {}

    def close(self, command: dict[str, Any]) -> dict[str, Any]:
        """Shut a client down."""
        self._clients.pop(command["name"]).shutdown()
        return {}


def _configuration(command: dict[str, Any]) -> ClientConfiguration:
    credentials = Credentials(command.get("access_key") or "", command.get("secret") or "")
    return ClientConfiguration(
        command["endpoint"], credentials, command.get("namespace") or "", request_timeout=10
    )


def _filters(command: dict[str, Any]) -> dict[str, FilterExpression]:
    kinds = {"tag": FilterType.TAG, "sql": FilterType.SQL}
    return {
        topic: FilterExpression(wanted["expression"], kinds[wanted["type"]])
        for topic, wanted in command["filters"].items()
    }


def _carry_out(driver: Driver, command: dict[str, Any]) -> None:
    try:
        answer = getattr(driver, command["op"])(command)
    except Exception as error:
        code = getattr(error, "code", None)
        text = f"{type(error).__name__}: {error}"
        is_number = isinstance(code, int)
        _write({"id": command["id"], "error": {"code": code if is_number else None, "text": text}})
    else:
        _write({"id": command["id"], "ok": answer})


def main() -> None:
    """Serve commands until the input ends, each in a thread of its own."""
    driver = Driver()
    for line in sys.stdin:
        command = json.loads(line)
        threading.Thread(target=_carry_out, args=(driver, command), daemon=True).start()


if __name__ == "__main__":
    main()
