"""Requests of the HTTP contract, and what their answers mean for a history. Knows no product code.

A request without an answer leaves it open what happened; only a refusal says that nothing did.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tests.histories.events import Verb
from tests.histories.recorder import Recorder, Running

_PADDING = "." * 200
_REFUSED = range(400, 500)


class Reply(NamedTuple):
    """An answer: its status, and its document where it has one."""

    status: int
    document: Any  # A JSON document.


Ask = Callable[[str, str, object], Reply | None]
"""Makes a request: method, path, document; None where there is no answer."""
Told = Callable[[Any], dict[str, Any]]


def body_of(id_: str) -> str:
    """Return the body of a message with an id."""
    return f"{id_} {_PADDING}"


def id_of(body: str) -> str:
    """Return the id that a body begins with."""
    return body.partition(" ")[0]


def digest_of(body: str) -> str:
    """Return what stands for a body in a history."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def wall_ms() -> int:
    """Return what the wall clock says, rounded down."""
    return time.time_ns() // 1_000_000


def milliseconds_of(text: str) -> int:
    """Return the wall time of an answer."""
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


def settle(running: Running, reply: Reply | None, told: Told = lambda document: {}) -> bool:
    """Write down what became of an operation; say whether it was done."""
    if reply is None:
        running.info("unanswered")
        return False
    if reply.status < 400:
        running.ok(**told(reply.document))
        return True
    code = str(reply.document.get("code"))
    if reply.status in _REFUSED:
        running.fail(code)
    else:
        running.info(code)
    return False


def _fail(running: Running, code: str) -> None:
    """Write down the refusal of one item; of one whose sync was not waited for nothing is known."""
    if code == "flush_timeout":
        running.info(code)
    else:
        running.fail(code)


class Teller:
    """Makes requests in the name of one client, and writes down what it asks and is told."""

    def __init__(self, name: str, ask: Ask, recorder: Recorder) -> None:
        """Be a client of a name of its own."""
        self.name = name
        self.ask = ask
        self.recorder = recorder

    def send(
        self, topic: str, ids: Sequence[str], *, first_number: int | None = None
    ) -> Reply | None:
        """Send messages; with a number they can be sent again under it."""
        messages: list[dict[str, object]] = [{"body": body_of(id_), "queue": 0} for id_ in ids]
        asked: dict[str, Any] = {"producer": self.name, "topic": topic}
        if first_number is not None:
            asked["sequences"] = [first_number + index for index in range(len(ids))]
            for message, number in zip(messages, asked["sequences"], strict=True):
                message.update(producer_id=self.name, producer_seq=number)
        written = [[id_, None, None, digest_of(body_of(id_))] for id_ in ids]
        running = self.recorder.invoke(Verb.SEND, **asked, messages=written)
        reply = self.ask("POST", f"/api/v1/topics/{topic}/messages", {"messages": messages})
        settle(running, reply, _stored)
        return reply

    def delay(self, topic: str, id_: str, **asked: int) -> str | None:
        """Send a message with `delay_ms`, `deliver_at` or `delay_level`; return its handle.

        A level is written down with its own time, so `level_ms` goes with it.
        """
        level_ms = asked.pop("level_ms", 0)
        due_ms = asked.get("deliver_at") or wall_ms() + asked.get("delay_ms", level_ms)
        messages = [[id_, digest_of(body_of(id_)), due_ms]]
        running = self.recorder.invoke(
            Verb.DELAY, producer=self.name, topic=topic, messages=messages
        )
        document = {"messages": [{"body": body_of(id_), **asked}]}
        reply = self.ask("POST", f"/api/v1/topics/{topic}/messages", document)
        if not settle(running, reply):
            return None
        assert reply is not None
        (result,) = reply.document["results"]
        assert milliseconds_of(result["deliver_at"]) >= due_ms, "it promises to come early"
        handle: str | None = result["recall_handle"]
        return handle

    def recall(self, id_: str, handle: str) -> None:
        """Ask for a delayed message back."""
        running = self.recorder.invoke(Verb.RECALL, id=id_)
        _settle_recall(running, self.ask("DELETE", f"/api/v1/delayed/{handle}", None))

    def hasten(self, id_: str, handle: str) -> None:
        """Have a delayed message delivered before its time."""
        running = self.recorder.invoke(Verb.HASTEN, id=id_)
        _settle_recall(running, self.ask("POST", f"/api/v1/delayed/{handle}:deliver-now", {}))

    def begin(self, topic: str, id_: str, group: str) -> str | None:
        """Store a half message; return the transaction's id."""
        digest = digest_of(body_of(id_))
        running = self.recorder.invoke(
            Verb.BEGIN, producer=self.name, topic=topic, id=id_, digest=digest
        )
        document = {"message": {"body": body_of(id_)}, "producer_group": group}
        reply = self.ask("POST", f"/api/v1/topics/{topic}/transactions", document)
        if not settle(running, reply):
            return None
        assert reply is not None
        transaction: str = reply.document["transaction_id"]
        return transaction

    def end(self, id_: str, transaction: str, outcome: str) -> Reply | None:
        """Commit or roll back."""
        running = self.recorder.invoke(Verb.END, id=id_, outcome=outcome)
        verb = "commit" if outcome == "committed" else "rollback"
        reply = self.ask("POST", f"/api/v1/transactions/{transaction}:{verb}", {})
        settle(running, reply, _ended)
        return reply

    def checks(self, group: str, *, wait_ms: int) -> list[tuple[str, str]]:
        """Ask what is to be decided: message and transaction of each."""
        running = self.recorder.invoke(Verb.CHECKS, group=group, client=self.name)
        document = {"client_id": self.name, "wait_ms": wait_ms}
        path = f"/api/v1/producer-groups/{group}/checks:receive"
        reply = self.ask("POST", path, document)
        if not settle(running, reply, _checked):
            return []
        assert reply is not None
        return [
            (id_of(check["message"]["body"]), check["transaction_id"])
            for check in reply.document["checks"]
        ]

    def receive(self, group: str, topic: str, *, invisible_ms: int) -> list[dict[str, Any]]:
        """Take messages of a lease; each is one run of a listener, to be completed by `done`."""
        asked = {"topic": topic, "max": 16, "wait_ms": 200, "invisible_ms": invisible_ms}
        asked["client_id"] = self.name
        reply = self.ask("POST", f"/api/v1/groups/{group}/messages:receive", asked)
        if reply is None or reply.status != 200:
            return []
        messages: list[dict[str, Any]] = reply.document["messages"]
        for message in messages:
            message["running"] = self.deliver(group, message, invisible_ms=invisible_ms)
        return messages

    def deliver(self, group: str, message: dict[str, Any], **lease: int) -> Running:
        """Write down that a listener begins with a message."""
        return self.recorder.invoke(
            Verb.DELIVER,
            group=group,
            client=self.name,
            topic=message["topic"],
            queue=message["queue"],
            messages=[[id_of(message["body"]), int(message["offset"]), digest_of(message["body"])]],
            **lease,
        )

    def ack(self, group: str, message: dict[str, Any]) -> None:
        """Acknowledge a message."""
        self._settle_lease(Verb.ACK, group, message, {})

    def ack_all(self, group: str, messages: Sequence[dict[str, Any]]) -> None:
        """Acknowledge what was received together, with one request; each is an operation."""
        runnings = [
            self.recorder.invoke(
                Verb.ACK, group=group, client=self.name, ids=[id_of(message["body"])]
            )
            for message in messages
        ]
        document = {"receipt_handles": [message["receipt_handle"] for message in messages]}
        reply = self.ask("POST", f"/api/v1/groups/{group}/messages:ack", document)
        for index, running in enumerate(runnings):
            if reply is None or reply.status >= 400:
                settle(running, reply)
                continue
            outcome = str(reply.document["results"][index]["status"])
            if outcome == "ok":
                running.ok()
            else:
                _fail(running, outcome)

    def nack(self, group: str, message: dict[str, Any], *, level: int = 0, reason: str) -> None:
        """Give a message back because it failed."""
        asked = {"reason": reason, "delay_level": level}
        self._settle_lease(Verb.NACK, group, message, asked, level=level)

    def send_back(
        self, group: str, message: dict[str, Any], *, level: int = 0, reason: str
    ) -> str | None:
        """Send a message back that was read from its queue; return what became of it."""
        id_ = id_of(message["body"])
        running = self.recorder.invoke(
            Verb.BACK, group=group, client=self.name, ids=[id_], level=level
        )
        place = {name: message[name] for name in ("topic", "queue", "offset")}
        document = {
            "client_id": self.name, "messages": [place], "reason": reason, "delay_level": level
        }  # fmt: skip
        reply = self.ask("POST", f"/api/v1/groups/{group}/messages:send-back", document)
        if not settle(running, reply, _returned):
            return None
        assert reply is not None
        outcome: str = reply.document["results"][0]["outcome"]
        return outcome

    def _settle_lease(
        self,
        verb: Verb,
        group: str,
        message: dict[str, Any],
        asked: dict[str, object],
        **told: int,
    ) -> None:
        id_ = id_of(message["body"])
        running = self.recorder.invoke(verb, group=group, client=self.name, ids=[id_], **told)
        document = {"receipt_handles": [message["receipt_handle"]], **asked}
        reply = self.ask("POST", f"/api/v1/groups/{group}/messages:{verb}", document)
        if reply is not None and reply.status == 207:
            # One handle, one result: the lease was over.
            _fail(running, str(reply.document["results"][0]["status"]))
        else:
            settle(running, reply)


def _settle_recall(running: Running, reply: Reply | None) -> None:
    """An honest answer is an answer, also one that it is too late."""
    outcomes = {
        "already_delivered": "delivered",
        "already_cancelled": "cancelled",
        "unknown_handle": "unknown",
    }
    if reply is not None and reply.status < 500:
        code = reply.document.get("code")
        running.ok(outcome=outcomes[code] if code else reply.document["outcome"])
    else:
        settle(running, reply)


def _stored(document: Any) -> dict[str, Any]:
    results = document["results"]
    return {
        "places": [[result["queue"], int(result["offset"])] for result in results],
        "repeats": [bool(result.get("repeat")) for result in results],
    }


def _ended(document: Any) -> dict[str, Any]:
    has_place = document["offset"] is not None
    place = [document["topic"], document["queue"], int(document["offset"])] if has_place else None
    return {"repeat": document["repeat"], "place": place}


def _checked(document: Any) -> dict[str, Any]:
    return {
        "checks": [
            [id_of(check["message"]["body"]), check["number"], check["checks_max"]]
            for check in document["checks"]
        ]
    }


def _returned(document: Any) -> dict[str, Any]:
    return {"outcomes": [result["outcome"] for result in document["results"]]}
