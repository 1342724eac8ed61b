"""Requests about what is not in its queue yet: delayed messages and transactions.

Knows addresses and documents; when to ask is the producers' affair.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from mqclient.names import checked_name, path_part
from mqclient.protocol.endpoint import API
from mqclient.protocol.group_calls import GroupCalls
from mqclient.protocol.requests import Call, nothing, number
from mqclient.values import (
    Decision,
    EndedTransaction,
    HalfMessage,
    OutgoingMessage,
    TransactionCheck,
)
from mqclient.wire.properties import pack_properties

_VERBS = {Decision.COMMIT: "commit", Decision.ROLLBACK: "rollback"}


class LaterCalls(GroupCalls):
    """Builds the requests about delayed messages and transactions."""

    def recall(self, handle: str) -> Call[None]:
        """Cancel a delayed message."""
        return self._bare("DELETE", f"{API}/delayed/{path_part(handle)}", nothing)

    def deliver_now(self, handle: str) -> Call[None]:
        """Deliver a delayed message before its time."""
        target = f"{API}/delayed/{path_part(handle)}:deliver-now"
        return self._json("POST", target, {}, _anything)

    def begin_transaction(
        self,
        message: OutgoingMessage,
        *,
        producer_group: str,
        check_immunity_ms: int | None = None,
    ) -> Call[tuple[str, str]]:
        """Store a half message; the transaction's id and the message's.

        Not repeatable: each carrying out begins a transaction of its own.
        """
        document: dict[str, object] = {
            "message": _written(message),
            "producer_group": checked_name(producer_group, "producer group"),
        }
        if check_immunity_ms is not None:
            document["check_immunity_ms"] = check_immunity_ms
        target = f"{API}/topics/{path_part(message.topic)}/transactions"
        return self._json("POST", target, document, _begun, is_repeatable=False)

    def end_transaction(self, transaction_id: str, decision: Decision) -> Call[EndedTransaction]:
        """Commit or roll back; the same decision again is answered as a repeat."""
        target = f"{API}/transactions/{path_part(transaction_id)}:{_VERBS[decision]}"
        return self._json("POST", target, {}, _ended)

    def receive_checks(
        self, producer_group: str, client_id: str, *, checks_max: int, wait_ms: int
    ) -> Call[list[TransactionCheck]]:
        """Ask which transactions of a producer group are to be decided."""
        document = {"client_id": client_id, "max": checks_max, "wait_ms": wait_ms}
        target = f"{API}/producer-groups/{path_part(producer_group)}/checks:receive"
        return self._json("POST", target, document, _checks, is_repeatable=False, wait_ms=wait_ms)


def _anything(_document: Any) -> None:  # A JSON document.
    """Read an answer that says nothing but that it was done."""


def _written(message: OutgoingMessage) -> dict[str, object]:
    # The broker's refusal would name the same; this one comes before anything is sent.
    pack_properties(
        tag=message.tag,
        keys=message.keys,
        sharding_key=message.sharding_key,
        properties=message.properties,
    )
    document: dict[str, object] = {"body_base64": b64encode(message.body).decode("ascii")}
    optional: Sequence[tuple[str, object]] = (
        ("tag", message.tag),
        ("keys", list(message.keys)),
        ("properties", dict(message.properties)),
        ("sharding_key", message.sharding_key),
        ("queue", message.queue),
    )
    document.update((name, value) for name, value in optional if value not in (None, [], {}))
    return document


def _begun(document: Any) -> tuple[str, str]:  # A JSON document.
    return str(document["transaction_id"]), str(document["message_id"])


def _ended(document: Any) -> EndedTransaction:  # A JSON document.
    return EndedTransaction(
        transaction_id=document["transaction_id"],
        outcome=document["outcome"],
        is_repeat=bool(document.get("repeat")),
        topic=document.get("topic"),
        queue=number(document.get("queue")),
        queue_offset=number(document.get("offset")),
    )


def _checks(document: Any) -> list[TransactionCheck]:  # A JSON document.
    return [
        TransactionCheck(
            transaction_id=item["transaction_id"],
            number=int(item["number"]),
            checks_max=int(item["checks_max"]),
            message=_half(item["message"]),
        )
        for item in document["checks"]
    ]


def _half(item: Any) -> HalfMessage:  # A JSON document.
    encoded = item.get("body_base64")
    return HalfMessage(
        topic=item["topic"],
        body=item["body"].encode() if encoded is None else b64decode(encoded),
        message_id=item["message_id"],
        tag=item.get("tag"),
        keys=tuple(item.get("keys") or ()),
        properties=dict(item.get("properties") or {}),
        sharding_key=item.get("sharding_key"),
        born_time=item.get("born_time"),
    )
