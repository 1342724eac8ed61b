"""Everything around the verbs: routes, methods, hosts, request ids, errors of the engine."""

import logging

import pytest

from apps.core.statuses import status_of
from apps.doors.http import routing
from apps.doors.http.app import create_app, is_data_plane
from apps.doors.http.settings import DoorSettings
from apps.engine import errors
from tests.doors.asgi import Client
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

SEND = "/api/v1/topics/single/messages"
DOCUMENT = {"messages": [{"body": "x"}]}


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/v1/topics/single",
        "/api/v1/topics//messages",
        "/api/v1/topics/single/messages/",
        "/api/v1/topics/a/b/messages",
        "/api/v2/topics/single/messages",
        "/api/v1/groups/g/messages:steal",
        "/api/v1/groups/g/messages",
        "/healthz/",
        "/api/v1/topics/" + "a" * 5000 + "/messages",
        "/api/v1/topics/single/messages%0A",
    ],
)
async def test_an_address_nobody_serves_is_not_found(client: Client, path: str) -> None:
    answer = await client.post(path, DOCUMENT)

    assert (answer.status, answer.code) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", SEND, "POST, GET, HEAD"),
        ("PUT", SEND, "POST, GET, HEAD"),
        ("POST", "/api/v1/topics/single/queues/0/messages", "GET, HEAD"),
        ("GET", "/api/v1/groups/g/messages:receive", "POST"),
        ("PUT", "/api/v1/groups/g/messages:ack", "POST"),
        ("OPTIONS", "/api/v1/groups/g/offsets:commit", "POST"),
        ("GET", "/api/v1/groups/g/members/c:heartbeat", "POST"),
        ("DELETE", "/api/v1/groups/g/members/c:leave", "POST"),
        ("GET", "/api/v1/groups/g/locks:acquire", "POST"),
        ("POST", "/api/v1/topics/single/queues/0/offset", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
        ("POST", "/api/v1/delayed/h", "DELETE"),
        ("DELETE", "/api/v1/delayed/h:deliver-now", "POST"),
        ("GET", "/api/v1/transactions/7f:commit", "POST"),
        ("PUT", "/api/v1/topics/single/transactions", "POST"),
        ("GET", "/api/v1/producer-groups/g/checks:receive", "POST"),
        ("GET", "/api/v1/groups/g/messages:send-back", "POST"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(
    client: Client, method: str, path: str, allow: str
) -> None:
    answer = await client.request(method, path)

    assert (answer.status, answer.code) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allow


@pytest.mark.parametrize(
    ("path", "method", "expected"),
    [
        ("/api/v1/topics/t/messages", "POST", True),
        ("/api/v1/topics/t/messages", "PUT", True),
        ("/api/v1/topics/t/messages", "GET", True),
        ("/api/v1/topics/%RETRY%g/messages", "POST", True),
        ("/api/v1/topics/t/queues/0/messages", "GET", True),
        ("/api/v1/groups/g/messages:receive", "POST", True),
        ("/api/v1/groups/g/messages:receive", "GET", True),
        ("/api/v1/groups/g/offsets:commit", "POST", True),
        ("/api/v1/groups/g/offsets:begin", "POST", True),
        ("/api/v1/groups/g/offsets:preview", "POST", False),
        ("/api/v1/groups/g/members/ip@1#a/b:heartbeat", "POST", True),
        ("/api/v1/groups/g/members/c:leave", "POST", True),
        ("/api/v1/groups/g/members", "GET", False),
        ("/api/v1/groups/g/locks:acquire", "POST", True),
        ("/api/v1/groups/g/locks:release", "POST", True),
        ("/api/v1/groups/g/lag", "GET", False),
        ("/api/v1/locks", "GET", False),
        ("/api/v1/locks/7:release", "POST", False),
        ("/api/v1/topics/t/queues/0/offset", "GET", True),
        ("/api/v1/groups/g/offsets", "GET", False),
        ("/api/v1/topics", "GET", False),
        ("/api/v1/topics/t", "PUT", False),
        ("/api/v1/topics/t/transactions", "POST", True),
        ("/api/v1/transactions", "GET", False),
        ("/api/v1/transactions/status", "GET", False),
        ("/api/v1/transactions/7f.1-0:commit", "POST", True),
        ("/api/v1/transactions/7f.1-0:rollback", "POST", True),
        ("/api/v1/transactions/7f.1-0:check-now", "POST", False),
        ("/api/v1/producer-groups/g/checks:receive", "POST", True),
        ("/api/v1/groups/g/messages:send-back", "POST", True),
        ("/api/v1/groups/g/dead-letters:resend", "POST", False),
        ("/api/v1/delayed", "GET", False),
        ("/api/v1/delayed/levels", "GET", False),
        ("/api/v1/delayed/status", "HEAD", False),
        ("/api/v1/delayed/aGFuZGxl", "DELETE", True),
        ("/api/v1/delayed/aGFuZGxl:deliver-now", "POST", True),
        ("/healthz", "GET", True),
        ("/readyz", "GET", True),
        ("/metrics", "GET", True),
        ("/admin/", "GET", False),
        ("/", "GET", False),
    ],
)
def test_the_door_claims_the_data_plane_and_nothing_else(
    path: str, method: str, expected: bool
) -> None:
    assert is_data_plane(path, method) is expected


def test_every_row_of_the_table_has_a_verb_and_claims_its_own_methods() -> None:
    for row in routing.ROWS:
        path = row.path.replace("{", "").replace("}", "")
        assert row.verbs
        assert all(is_data_plane(path, method) for method in row.verbs)
        assert routing.resolve(path.encode()) is not None


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "localhost.",
        "localhost:80:80",
        "localhost:x",
        "localhost:\u00b2",
        "[localhost]x",
        "[::1",
        "[::2]",
    ],
)
async def test_a_host_that_is_not_this_server_is_refused(
    client: Client, engine: Recorder, host: str
) -> None:
    """DNS rebinding: a page points its own name at loopback and posts as if to itself."""
    answer = await client.post(SEND, DOCUMENT, headers={"host": host})

    assert (answer.status, answer.code) == (400, "bad_host")
    assert engine.calls == []


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:9", "[::1]", "[::1]:8000"]
)
async def test_the_names_of_this_server_are_allowed(client: Client, host: str) -> None:
    answer = await client.post(SEND, DOCUMENT, headers={"host": host})

    assert answer.status == 201


async def test_a_star_allows_any_host(engine: Recorder, clock: ManualClock) -> None:
    settings = DoorSettings(allowed_hosts=frozenset({"*"}))
    client = Client(create_app(lambda: engine, settings, clock=clock))

    answer = await client.get("/healthz", headers={"host": "anything"})

    assert answer.status == 200


@pytest.mark.parametrize("offered", ["a" * 65, "a b", "a\u00e9", "<b>"])
async def test_a_request_id_that_could_do_harm_is_replaced(client: Client, offered: str) -> None:
    answer = await client.get("/healthz", headers={"x-request-id": offered})

    assert answer.headers["x-request-id"] != offered


async def test_requests_without_an_id_get_different_ones(client: Client) -> None:
    first = await client.get("/healthz")
    second = await client.get("/healthz")

    assert first.headers["x-request-id"] != second.headers["x-request-id"]


async def test_no_browser_may_guess_a_type_or_keep_an_answer(client: Client) -> None:
    answer = await client.get("/api/v1/topics/single/queues/0/messages?offset=0")

    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def engine_errors() -> list[type[errors.EngineError]]:
    kinds: list[type[errors.EngineError]] = [errors.EngineError]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
    # Those of one layer alone, which say more, are answered as what they are a kind of.
    own = [kind for kind in kinds if kind.__module__ == errors.__name__]
    return [kind for kind in own if kind is not errors.StoreLocked]


@pytest.mark.parametrize("kind", engine_errors(), ids=lambda kind: kind.code)
async def test_every_engine_error_is_answered_by_its_status(
    client: Client, engine: Recorder, kind: type[errors.EngineError]
) -> None:
    engine.failure = kind("/var/lib/secret went wrong")

    answer = await client.post(SEND, DOCUMENT)

    assert engine.failure_count == 1
    assert (answer.status, answer.code) == (status_of(kind), kind.code)
    assert answer.json()["retriable"] is kind.retriable
    assert answer.headers.get("retry-after") == ("1" if kind.retriable else None)
    assert ("secret" in answer.json()["detail"]) is (answer.status != 500)


async def test_a_bug_is_answered_without_details_and_logged_with_them(
    client: Client, engine: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    engine.failure = RuntimeError("secret")

    with caplog.at_level(logging.ERROR):
        answer = await client.post(SEND, DOCUMENT, headers={"x-request-id": "find-me"})

    assert engine.failure_count == 1
    assert (answer.status, answer.code) == (500, "internal_error")
    assert "secret" not in answer.body.decode()
    (record,) = caplog.records
    assert "find-me" in record.getMessage()
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "secret"


async def test_without_an_engine_every_verb_is_answered_to_come_again(clock: ManualClock) -> None:
    client = Client(create_app(lambda: None, DoorSettings(), clock=clock))

    answer = await client.post(SEND, DOCUMENT)

    assert (answer.status, answer.code) == (503, "stopping")
    assert answer.headers["retry-after"] == "1"


async def test_the_engine_is_looked_up_on_every_request(
    engine: Recorder, clock: ManualClock
) -> None:
    opened: list[Recorder] = []
    client = Client(create_app(lambda: opened[0] if opened else None, DoorSettings(), clock=clock))

    before = await client.post(SEND, DOCUMENT)
    opened.append(engine)
    after = await client.post(SEND, DOCUMENT)

    assert (before.status, after.status) == (503, 201)


async def test_what_is_not_http_is_not_served(clock: ManualClock) -> None:
    app = create_app(lambda: None, DoorSettings(), clock=clock)

    async def nothing(*_: object) -> None:
        raise AssertionError

    with pytest.raises(ValueError, match="websocket"):
        await app({"type": "websocket"}, nothing, nothing)  # type: ignore[arg-type]
