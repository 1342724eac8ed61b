"""The composition root: who answers what, and what is opened and closed around it."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings

from apps.bridge import control, lifecycle, remote
from apps.bridge import engine as bridge
from apps.bridge.exits import Exit
from apps.bridge.loops import end, every
from apps.core.bodylimit import with_body_limit
from apps.engine.errors import StoreLocked
from apps.engine.local import LocalEngine
from apps.engine.types import ClientSeen
from mqweb import asgi
from tests.web.fake_engine import FakeEngine

Sent = list[dict[str, Any]]


@pytest.fixture
async def engine(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeEngine]:
    """Install a fake engine on the test's own loop."""
    fake = FakeEngine()
    bridge.install(fake, asyncio.get_running_loop())  # type: ignore[arg-type]
    yield fake
    bridge.remove()


async def request(
    app: Any, method: str, path: str, *, chunks: tuple[bytes, ...] = (b"",), **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Send a request through an ASGI application and return its answer."""
    fields = {"host": "127.0.0.1", **headers}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "path": path, "raw_path": path.encode(), "query_string": b"", "scheme": "http",
        "headers": [(name.replace("_", "-").encode(), value.encode())
                    for name, value in fields.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000), "root_path": "",
    }  # fmt: skip
    waiting = list(chunks)
    sent: Sent = []

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def send(event: Any) -> None:
        sent.append(event)

    await app(scope, receive, send)
    start = sent[0]
    body = b"".join(event.get("body", b"") for event in sent[1:])
    return start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, body


@pytest.mark.parametrize("path", ["/", "/ws/", "/ws/nothing/", "/ws/live"])
async def test_a_handshake_at_an_address_there_is_not_is_refused(path: str) -> None:
    scope = {
        "type": "websocket", "path": path, "query_string": b"", "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1")],
    }  # fmt: skip
    socket = ApplicationCommunicator(asgi._sockets, scope)
    await socket.send_input({"type": "websocket.connect"})

    answer = await socket.receive_output(timeout=30)

    assert answer["type"] == "websocket.close"


async def test_the_data_plane_is_answered_without_django(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise AssertionError("Django was asked")

    monkeypatch.setattr(asgi, "_django", fail)

    alive, _, _ = await request(asgi.application, "GET", "/healthz")
    refused, _, body = await request(
        asgi.application, "POST", "/api/v1/topics/t/messages", content_type="application/json"
    )

    assert alive == 200
    assert refused == 400
    assert json.loads(body)["code"] == "bad_json"


async def test_the_rest_is_djangos(engine: FakeEngine) -> None:
    status, headers, body = await request(asgi.application, "GET", "/api/v1/groups/g/offsets")

    assert status == 200
    assert json.loads(body)["items"] == []
    assert "Content-Security-Policy" in headers


async def test_a_body_past_the_limit_is_refused_before_it_is_read(engine: FakeEngine) -> None:
    status, headers, body = await request(
        asgi.application, "PUT", "/api/v1/topics/t",
        content_length=str(2**40), content_type="application/json",
    )  # fmt: skip

    assert status == 413
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body)["code"] == "request_too_large"


async def test_a_body_that_grows_past_the_limit_is_refused_while_it_arrives() -> None:
    taken: list[int] = []

    async def swallow(_scope: Any, receive: Any, _send: Any) -> None:
        while (event := await receive())["more_body"]:
            taken.append(len(event["body"]))

    app = with_body_limit(swallow, body_bytes_max=10)

    status, _, body = await request(app, "PUT", "/x", chunks=(b"12345",) * 100)

    assert status == 413
    assert json.loads(body)["code"] == "request_too_large"
    assert taken == [5, 5]


async def test_a_socket_from_a_foreign_page_is_refused() -> None:
    def scope(origin: str) -> dict[str, Any]:
        return {
            "type": "websocket", "path": "/ws/overview/", "query_string": b"",
            "headers": [(b"host", b"127.0.0.1"), (b"origin", origin.encode())],
            "subprotocols": [],
        }  # fmt: skip

    async def first_answer(origin: str) -> str:
        sent: Sent = []
        answered = asyncio.Event()
        waiting = [{"type": "websocket.connect"}]

        async def receive() -> dict[str, Any]:
            if not waiting:
                await asyncio.Event().wait()
            return waiting.pop()

        async def send(event: Any) -> None:
            sent.append(event)
            answered.set()

        task = asyncio.create_task(asgi.application(scope(origin), receive, send))
        await answered.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return str(sent[0]["type"])

    assert await first_answer("https://evil.example") == "websocket.close"
    assert await first_answer("http://127.0.0.1:8000") == "websocket.accept"


async def test_a_store_held_by_another_is_a_refusal_with_its_exit_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise StoreLocked("held by pid 7", owner={"pid": 7})

    monkeypatch.setattr(LocalEngine, "open", refuse)
    monkeypatch.setattr(lifecycle, "_refusal", None)
    sent: Sent = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(event: Any) -> None:
        sent.append(event)

    await asgi.application({"type": "lifespan"}, receive, send)

    assert [event["type"] for event in sent] == ["lifespan.startup.failed"]
    refusal = lifecycle.refusal()
    assert refusal is not None
    assert (str(refusal.error), refusal.code) == ("held by pid 7", Exit.HELD)
    assert bridge.engine_or_none() is None


async def test_a_failing_step_is_logged_once_and_tried_until_it_works(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outcomes = [False, False, True, True]
    slept: list[float] = []

    async def step() -> None:
        if not outcomes.pop(0):
            raise LookupError("not yet")

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if not outcomes:
            raise asyncio.CancelledError

    caplog.set_level("INFO")
    with pytest.raises(asyncio.CancelledError):
        await every(5.0, step, name="demo", sleep=sleep)

    assert slept == [5.0] * 4
    events = [record.getMessage() for record in caplog.records]
    assert events == ["background_step_failed", "background_step_recovered"]


async def test_control_verbs_are_answered_without_django_and_only_to_our_own_processes(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise AssertionError("Django was asked")

    monkeypatch.setattr(asgi, "_django", fail)
    token = control.token_of(settings.SECRET_KEY)
    path, nothing = control.PREFIX + "clients", (control.packed(None),)

    refused, _, _ = await request(asgi.application, "POST", path, chunks=nothing)
    answered, _, body = await request(
        asgi.application, "POST", path, chunks=nothing, x_mqweb_token=token
    )

    assert refused == 403
    assert (answered, control.unpacked(body, list[ClientSeen])) == (200, [])


def test_a_process_is_given_one_remote_engine_however_often_it_asks() -> None:
    remote.install()
    try:
        first = bridge.remote_or_none()
        remote.install()

        assert isinstance(first, remote.RemoteEngine)
        assert bridge.remote_or_none() is first
    finally:
        bridge.remove()


async def test_a_loop_that_lost_its_first_cancellation_is_ended_all_the_same() -> None:
    lost = []

    async def step() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if lost:
                raise
            lost.append(1)

    running = asyncio.create_task(every(0.0, step, name="demo"))
    await asyncio.sleep(0)

    await end([running], again_s=0.01)

    assert lost
    assert running.cancelled()
