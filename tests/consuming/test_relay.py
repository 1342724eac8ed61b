"""What stands between a client and the broker changes nothing, hides no end, and writes it all."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.consuming.relay import Answer, Relay, Request
from tests.consuming.witness import Witness
from tests.histories.events import Kind, Verb
from tests.histories.history import History, read
from tests.histories.recorder import Recorder

_TIMEOUT_S = 60.0


@contextmanager
def broker() -> Iterator[socket.socket]:
    """Yield a listening socket that the test answers for."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(_TIMEOUT_S)
        yield listener


def connected(listener: socket.socket, watcher: Any) -> tuple[socket.socket, socket.socket]:
    """Return both ends: the client's, and the broker's behind the relay."""
    relay = Relay(listener.getsockname()[1], watcher)
    relay.start()
    client = socket.create_connection(("127.0.0.1", relay.port), timeout=_TIMEOUT_S)
    server, _ = listener.accept()
    server.settimeout(_TIMEOUT_S)
    return client, server


def request_bytes(path: str, document: Any = None, method: str = "POST") -> bytes:
    """Return a request as a client writes it."""
    body = b"" if document is None else json.dumps(document).encode()
    return f"{method} {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def answer_bytes(status: int, document: Any = None) -> bytes:
    """Return an answer as the broker writes it."""
    body = b"" if document is None else json.dumps(document).encode()
    return f"HTTP/1.1 {status} Some\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def received(side: socket.socket, count: int) -> bytes:
    """Read exactly so many bytes."""
    data = b""
    while len(data) < count:
        part = side.recv(count - len(data))
        assert part, data
        data += part
    return data


def test_both_directions_pass_unchanged_one_request_after_the_other() -> None:
    seen: list[Request | Answer | None] = []

    def watcher(request: Request) -> Any:
        seen.append(request)
        return seen.append

    with broker() as listener:
        client, server = connected(listener, watcher)
        with client, server:
            for number in range(3):
                asked = request_bytes(f"/{number}", {"text": "x" * 300_000 * number})
                told = answer_bytes(200, {"number": number})
                threading.Thread(target=client.sendall, args=(asked,)).start()
                assert received(server, len(asked)) == asked
                server.sendall(told)
                assert received(client, len(told)) == told

    kinds = [type(item) for item in seen]
    assert kinds == [Request, Answer] * 3
    assert [item.target for item in seen if isinstance(item, Request)] == ["/0", "/1", "/2"]


def test_a_client_that_goes_while_the_broker_thinks_is_seen_to_go() -> None:
    answers: list[Answer | None] = []
    with broker() as listener:
        client, server = connected(listener, lambda request: answers.append)
        with client, server:
            asked = request_bytes("/held")
            client.sendall(asked)
            received(server, len(asked))
            client.close()

            assert server.recv(1) == b""
    assert answers == [None]


def test_a_broker_that_goes_without_an_answer_is_seen_to_go() -> None:
    answers: list[Answer | None] = []
    with broker() as listener:
        client, server = connected(listener, lambda request: answers.append)
        with client, server:
            asked = request_bytes("/held")
            client.sendall(asked)
            received(server, len(asked))
            server.close()

            assert client.recv(1) == b""
    assert answers == [None]


def test_an_idle_connection_ends_with_the_broker() -> None:
    with broker() as listener:
        client, server = connected(listener, lambda request: None)
        with client, server:
            server.close()

            assert client.recv(1) == b""


def witnessed(directory: Path, *exchanges: tuple[str, Any, int | None, Any]) -> History:
    """Let a witness see requests with their answers: path, document, status, document."""
    with Recorder(directory / "c.jsonl", "c") as recorder:
        witness = Witness(recorder)
        for path, asked, status, told in exchanges:
            method = "GET" if asked is None else "POST"
            answered = witness(Request(method, path, json.dumps(asked).encode()))
            body = b"" if told is None else json.dumps(told).encode()
            if answered is not None:
                answered(None if status is None else Answer(status, body))
    return read(directory)


PLACE = {"topic": "t", "queue": 1}
LOCKED = {"locked": [{**PLACE, "epoch": 7, "expires_in_ms": 900}], "refused": []}
REFUSED = {"locked": [], "refused": [{**PLACE, "owner": "b"}]}
COMMIT = {"client_id": "a", "offsets": [{**PLACE, "offset": "12", "epoch": 7}]}
PULL = "/api/v1/topics/t/queues/1/messages?offset=5&max=32&group=g&client_id=a&epoch=7"


@pytest.mark.parametrize(
    ("exchange", "verb", "kind", "asked", "told"),
    [
        (
            ("/api/v1/groups/g/locks:acquire", {"client_id": "a", "queues": [PLACE]}, 200, LOCKED),
            Verb.LOCK,
            Kind.OK,
            {"group": "g", "client": "a", "queues": [["t", 1]]},
            {"locked": [["t", 1, 7, 900]], "refused": []},
        ),
        (
            ("/api/v1/groups/g/locks:acquire", {"client_id": "a", "queues": [PLACE]}, 200, REFUSED),
            Verb.LOCK,
            Kind.OK,
            {"group": "g", "client": "a", "queues": [["t", 1]]},
            {"locked": [], "refused": [["t", 1, "b"]]},
        ),
        (
            ("/api/v1/groups/g%7C1/offsets:commit", COMMIT, 204, None),
            Verb.COMMIT,
            Kind.OK,
            {"group": "g|1", "client": "a", "offsets": [["t", 1, 12, 7]]},
            {},
        ),
        (
            ("/api/v1/groups/g/offsets:commit", COMMIT, 409, {"code": "lock_lost"}),
            Verb.COMMIT,
            Kind.FAIL,
            {"group": "g", "client": "a", "offsets": [["t", 1, 12, 7]]},
            {"code": "lock_lost"},
        ),
        (
            ("/api/v1/groups/g/offsets:commit", COMMIT, 503, {"code": "stopping"}),
            Verb.COMMIT,
            Kind.INFO,
            {"group": "g", "client": "a", "offsets": [["t", 1, 12, 7]]},
            {"code": "stopping"},
        ),
        (
            (PULL, None, None, None),
            Verb.PULL,
            Kind.INFO,
            {"group": "g", "client": "a", "topic": "t", "queue": 1, "offset": 5, "epoch": 7},
            {"code": "unanswered"},
        ),
        (
            ("/api/v1/groups/g/members/a:leave", {}, 204, None),
            Verb.LEAVE,
            Kind.OK,
            {"group": "g", "client": "a"},
            {},
        ),
    ],
    ids=["lock", "lock refused", "commit", "stale commit", "unknown commit", "pull", "leave"],
)
def test_a_witness_writes_what_was_asked_and_told(
    tmp_path: Path, exchange: Any, verb: Verb, kind: Kind, asked: Any, told: Any
) -> None:
    (operation,) = witnessed(tmp_path, exchange).operations

    assert (operation.verb, operation.kind) == (verb, kind)
    assert (operation.asked, operation.told) == (asked, told)


def test_a_witness_writes_an_assignment_when_it_changes(tmp_path: Path) -> None:
    path = "/api/v1/groups/g/members/a:heartbeat"
    beats = [
        (path, {}, 200, {"generation": generation, "assignment": {"t": queues}})
        for generation, queues in ((1, [1, 0]), (2, [0, 1]), (3, [1]))
    ]

    history = witnessed(tmp_path, *beats, (path, {}, None, None), (path, {}, 503, {"code": "x"}))

    assert [operation.verb for operation in history.operations] == [Verb.JOIN]
    assert [(n.values["generation"], n.values["queues"]) for n in history.notices] == [
        (1, [["t", 0], ["t", 1]]),
        (3, [["t", 1]]),
    ]


def test_what_is_no_members_request_is_not_written(tmp_path: Path) -> None:
    pulled = ("/api/v1/topics/t/queues/1/messages?offset=0", None, 200, {})
    sent = ("/api/v1/topics/t/messages", {"messages": []}, 201, {})

    assert witnessed(tmp_path, pulled, sent).operations == []
