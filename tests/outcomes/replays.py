"""Requests whose bytes are kept, to arrive again later, as a network may have it. Knows HTTP."""

import http.client
import json
import socket
from pathlib import Path
from typing import Any, Self

from tests.histories.events import Kind, Verb
from tests.histories.history import History, read
from tests.histories.recorder import Recorder
from tests.outcomes.calls import Ask, Reply, Teller, settle
from tests.process.product import Broker

TOPICS = tuple(f"topic-{number}" for number in range(64))
# The last one is nobody's.
_SYNCED = TOPICS[-1]
_TIMEOUT_S = 60.0


class Wire:
    """The way to a broker. `last` are the bytes of the last request."""

    def __init__(self, broker: Broker) -> None:
        """Send nothing yet."""
        self._broker = broker
        self.last = b""

    def ask(self, method: str, path: str, document: object = None) -> Reply:
        """Make a request, and keep it."""
        body = b"" if document is None else json.dumps(document).encode()
        head = [
            f"{method} {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self._broker.port}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        self.last = "\r\n".join([*head, "", ""]).encode() + body
        return self.replay(self.last)

    def replay(self, frame: bytes) -> Reply:
        """Let the bytes of a request arrive, for the first time or again."""
        address = ("127.0.0.1", self._broker.port)
        with socket.create_connection(address, _TIMEOUT_S) as connection:
            connection.sendall(frame)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            text = answer.read()
        return Reply(answer.status, json.loads(text) if text else None)


class Scene:
    """One row's own topic and group, its clients, and what they saw."""

    def __init__(self, directory: Path, broker: Broker, topic: str) -> None:
        """Begin a history."""
        directory.mkdir()
        self.topic, self.group = topic, f"group-of-{topic}"
        self.wire = Wire(broker)
        self._broker = broker
        self._directory = directory
        self.recorder = Recorder(directory / "clients.jsonl", "clients")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.recorder.close()

    def client(self, name: str, ask: Ask | None = None) -> Teller:
        """Return a client; `ask` is how it asks, where that is not the wire."""
        return Teller(name, ask or self.wire.ask, self.recorder)

    def again(self, name: str, frame: bytes) -> Teller:
        """Return a client of which, whatever it asks, an old request arrives."""
        return self.client(name, lambda *_: self.wire.replay(frame))

    def holder(self, name: str) -> "Holder":
        """Return a client that locks the topic's only queue."""
        return Holder(self, name, self.wire.ask)

    def holder_again(self, name: str, frame: bytes) -> "Holder":
        """Return a holder of which, whatever it asks, an old request arrives."""
        return Holder(self, name, lambda *_: self.wire.replay(frame))

    def asked(self, method: str, path: str, document: object = None, *, status: int = 200) -> Any:
        """Return the document of an answer that has a status."""
        reply = self.wire.ask(method, path, document)
        assert reply.status == status, reply
        return reply.document

    def send(self, *bodies: str) -> None:
        """Send messages to the topic's queue."""
        self.client("producer").send(self.topic, bodies)

    def bodies(self) -> list[str]:
        """Return the ids of everything in the queue."""
        path = f"/api/v1/topics/{self.topic}/queues/0/messages?offset=0&max=1000"
        found = self.asked("GET", path)["messages"]
        return [message["body"].partition(" ")[0] for message in found]

    def committed(self) -> int:
        """Return how far the group is."""
        place = {"queues": [{"topic": self.topic, "queue": 0}]}
        found = self.asked("POST", f"/api/v1/groups/{self.group}/offsets:begin", place)
        return int(found["offsets"][0]["offset"])

    def receive(self, client: str, *, invisible_ms: int = 60_000, wait_ms: int = 0) -> list[Any]:
        """Take messages of the group."""
        document = {
            "topic": self.topic, "client_id": client, "max": 1,
            "invisible_ms": invisible_ms, "wait_ms": wait_ms,
        }  # fmt: skip
        path = f"/api/v1/groups/{self.group}/messages:receive"
        found: list[Any] = self.asked("POST", path, document)["messages"]
        return found

    def settle(self, verb: str, handle: str, **asked: object) -> str:
        """Ack, nack or extend a handle; return what became of it, which the wire remembers."""
        path = f"/api/v1/groups/{self.group}/messages:{verb}"
        return outcome_of(self.wire.ask("POST", path, {"receipt_handles": [handle], **asked}))

    def heartbeat(self, client: str, *, generation: int = 0) -> Any:
        """Be a member of the group that wants the topic."""
        document = {"subscriptions": [{"topic": self.topic}], "generation": generation}
        path = f"/api/v1/groups/{self.group}/members/{client}:heartbeat"
        return self.asked("POST", path, document)

    def leave(self, client: str) -> None:
        """Leave the group."""
        self.asked("POST", f"/api/v1/groups/{self.group}/members/{client}:leave", {}, status=204)

    def kill(self) -> None:
        """Kill the broker and start it again.

        A power cut may take back that messages were handed out since the last sync, and they come
        again. Old requests are another matter, so a sync comes first.
        """
        messages = {"messages": [{"body": "sync"}], "ack": "sync"}
        self.asked("POST", f"/api/v1/topics/{_SYNCED}/messages", messages, status=201)
        self._broker.kill()
        self._broker.start()

    def history(self) -> History:
        """Return what the clients saw."""
        return read(self._directory)


class Holder:
    """A client that locks the queue of a scene, reads it and commits."""

    def __init__(self, scene: Scene, name: str, ask: Ask) -> None:
        """Ask by `ask`."""
        self.name = name
        self._scene = scene
        self._ask = ask
        self._group = f"/api/v1/groups/{scene.group}"

    def lock(self) -> int | None:
        """Take or renew the lock; return its epoch, None where it is refused."""
        scene, place = self._scene, [self._scene.topic, 0]
        running = scene.recorder.invoke(
            Verb.LOCK, group=scene.group, client=self.name, queues=[place]
        )
        reply = self._ask("POST", f"{self._group}/locks:acquire", self._locks())
        settle(running, reply, _told_of_locks)
        assert reply is not None
        locked = reply.document["locked"]
        return locked[0]["epoch"] if locked else None

    def unlock(self, epoch: int | None = None) -> None:
        """Give the lock back; with an epoch, that one only."""
        scene, place = self._scene, [self._scene.topic, 0]
        running = scene.recorder.invoke(
            Verb.UNLOCK, group=scene.group, client=self.name, queues=[place]
        )
        settle(running, self._ask("POST", f"{self._group}/locks:release", self._locks(epoch)))

    def read(self, offset: int, epoch: int) -> Reply:
        """Pull what is at an offset, and run a listener over it."""
        scene = self._scene
        path = (
            f"/api/v1/topics/{scene.topic}/queues/0/messages?offset={offset}&max=1"
            f"&group={scene.group}&client_id={self.name}&epoch={epoch}"
        )
        reply = self._ask("GET", path, None)
        assert reply is not None
        if reply.status == 200:
            for message in reply.document["messages"]:
                scene.client(self.name).deliver(scene.group, message).ok(done=1)
        return reply

    def commit(
        self, offset: int, *, epoch: int | None = None, generation: int | None = None
    ) -> str:
        """Commit an offset; return "ok" or the code of the refusal."""
        scene = self._scene
        item: dict[str, Any] = {"topic": scene.topic, "queue": 0, "offset": str(offset)}
        document: dict[str, Any] = {"client_id": self.name, "offsets": [item]}
        if epoch is not None:
            item["epoch"] = epoch
        if generation is not None:
            document["generation"] = generation
        running = scene.recorder.invoke(
            Verb.COMMIT,
            group=scene.group,
            client=self.name,
            offsets=[[scene.topic, 0, offset, epoch]],
        )
        reply = self._ask("POST", f"{self._group}/offsets:commit", document)
        assert reply is not None
        return "ok" if settle(running, reply) else str(reply.document["code"])

    def _locks(self, epoch: int | None = None) -> dict[str, Any]:
        queue: dict[str, Any] = {"topic": self._scene.topic, "queue": 0}
        if epoch is not None:
            queue["epoch"] = epoch
        return {"client_id": self.name, "queues": [queue]}


def outcome_of(reply: Reply) -> str:
    """Return what became of the only handle of a request."""
    (result,) = reply.document["results"]
    return str(result["status"])


def refused_count(history: History, verb: Verb) -> int:
    """Return how many operations of a verb were refused."""
    return [operation.kind for operation in history.of(verb)].count(Kind.FAIL)


def _told_of_locks(document: Any) -> dict[str, Any]:
    return {
        "locked": [
            [lock["topic"], lock["queue"], lock["epoch"], lock["expires_in_ms"]]
            for lock in document["locked"]
        ],
        "refused": [[lock["topic"], lock["queue"], lock["owner"]] for lock in document["refused"]],
    }
