"""The engine asked as from another process: over real sockets, through the internal door."""

import asyncio
import logging
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from apps.bridge.control import PREFIX, token_of
from apps.bridge.remote import RemoteEngine
from apps.doors.control.app import create_app
from apps.engine.api import EngineAPI, EngineControl
from apps.engine.config import EngineConfig
from apps.engine.errors import EngineError, Refused, Stopping, StoreFull, Unreachable
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.testing.contracts.control import CATALOG, EngineControlContract
from apps.engine.testing.manualclock import ManualClock
from tests.doors.asgi import Client, NoAnswer
from tests.doors.control.serving import HOSTS, TOKEN, Served, serve

Answer = TypeVar("Answer")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def local(served: Served, clock: ManualClock, tmp_path: Path) -> AsyncIterator[LocalEngine]:
    config = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0)
    engine = await LocalEngine.open(tmp_path, config, clock=clock)
    served.engine = engine
    yield engine
    await engine.close()


class TestControlOfRemoteEngine(EngineControlContract):
    @pytest.fixture
    def engine(self, local: LocalEngine) -> EngineAPI:
        return local

    @pytest.fixture
    def control(self, remote: RemoteEngine, engine: EngineAPI) -> EngineControl:
        return remote

    async def ask(self, question: Callable[[], Answer]) -> Answer:
        return await asyncio.to_thread(question)


async def test_errors_arrive_as_the_engine_raised_them(
    local: LocalEngine, remote: RemoteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise StoreFull("3 bytes left")

    monkeypatch.setattr(local, "publish_catalog", refuse)

    with pytest.raises(StoreFull, match="3 bytes left"):
        await asyncio.to_thread(remote.publish_catalog, CATALOG)


async def test_a_closed_engine_and_none_are_both_told_as_stopping(
    served: Served, local: LocalEngine, remote: RemoteEngine
) -> None:
    await local.close()
    with pytest.raises(Stopping):
        await asyncio.to_thread(remote.publish_catalog, CATALOG)
    served.engine = None
    with pytest.raises(Stopping, match="not open"):
        await asyncio.to_thread(remote.status)


async def test_a_bug_behind_the_door_is_logged_there_and_told_without_its_text(
    local: LocalEngine,
    remote: RemoteEngine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise LookupError("a secret path")

    monkeypatch.setattr(local, "status", fail)

    with pytest.raises(EngineError, match="its log says how") as caught:
        await asyncio.to_thread(remote.status)

    assert type(caught.value) is EngineError
    (record,) = [r for r in caplog.records if r.getMessage() == "control_verb_failed"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


async def test_another_secret_key_is_refused_in_words(local: LocalEngine, served: Served) -> None:
    stranger = RemoteEngine("127.0.0.1", served.port, token=token_of("another key"))

    with pytest.raises(Refused, match="secret key"):
        await asyncio.to_thread(stranger.forget_silent_clients, 0)
    stranger.close()


def test_a_broker_that_is_away_is_unreachable_and_may_be_asked_again() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        remote = RemoteEngine("127.0.0.1", unused.getsockname()[1], token=TOKEN)

        with pytest.raises(Unreachable) as caught:
            remote.status()

    assert caught.value.retriable


@contextmanager
def answering(*answers: bytes) -> Iterator[int]:
    """Serve one connection for each answer: take the request, send the answer, close."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(answer)

        thread = threading.Thread(target=run)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi",
    ],
)
def test_whatever_else_listens_there_is_unreachable(answer: bytes) -> None:
    with answering(answer) as port:
        remote = RemoteEngine("127.0.0.1", port, token=TOKEN)

        with pytest.raises(Unreachable):
            remote.status()

    remote.close()


def test_a_broker_that_hangs_is_given_up_after_the_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        remote = RemoteEngine(*listener.getsockname(), token=TOKEN, timeout_s=0.05)

        with pytest.raises(Unreachable, match="timed out"):
            remote.status()


async def test_a_broker_that_was_started_again_is_asked_over_a_new_connection(
    served: Served, local: LocalEngine, remote: RemoteEngine
) -> None:
    await asyncio.to_thread(remote.status)
    assert len(remote._kept) == 1
    await served.stop()
    again = await serve(served.port)
    again.engine = local

    status = await asyncio.to_thread(remote.status)

    await again.stop()
    assert status.epoch == 1


async def test_connections_are_kept_and_shared_by_threads(
    served: Served, local: LocalEngine, remote: RemoteEngine
) -> None:
    def ask_often() -> int:
        return sum(remote.status().epoch for _ in range(20))

    with ThreadPoolExecutor(8) as threads:
        loop = asyncio.get_running_loop()
        asked = [loop.run_in_executor(threads, ask_often) for _ in range(8)]
        answers = await asyncio.gather(*asked)

    assert answers == [20] * 8
    assert 1 <= len(remote._kept) <= 4
    assert len({id(connection) for _, connection in remote._kept}) == len(remote._kept)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
async def test_a_forked_child_leaves_its_parents_connections_alone(
    served: Served, local: LocalEngine, remote: RemoteEngine
) -> None:
    await asyncio.to_thread(remote.status)
    ((_, parents),) = remote._kept
    before = parents.sock.getsockname()

    def ask_in_child() -> int:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                remote.status()
                ((owner, own),) = remote._kept
                code = 0 if owner == os.getpid() and own.sock.getsockname() != before else 2
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    code = await asyncio.to_thread(ask_in_child)

    assert code == 0
    await asyncio.to_thread(remote.status)
    ((_, connection),) = remote._kept
    assert connection is parents
    assert connection.sock.getsockname() == before


class Guarded:
    """The door without a socket, with headers of the test's choice."""

    def __init__(self) -> None:
        self._client = Client(create_app(lambda: None, token=TOKEN, allowed_hosts=HOSTS))

    async def status_of(self, method: str, verb: str, body: bytes = b"\xc0", **headers: str) -> int:
        given = {"host": "localhost", "x-mqweb-token": TOKEN, **headers}
        answer = await self._client.request(method, PREFIX + verb, body=body, headers=given)
        return answer.status


@pytest.mark.parametrize(
    ("method", "verb", "given", "status"),
    [
        ("POST", "status", {}, 503),
        ("POST", "status", {"x-mqweb-token": ""}, 403),
        ("POST", "status", {"x-mqweb-token": TOKEN[:-1]}, 403),
        ("POST", "status", {"x-mqweb-token": TOKEN.upper()}, 403),
        ("POST", "status", {"host": "evil.example"}, 400),
        ("POST", "nothing", {}, 404),
        ("POST", "append", {}, 404),
        ("POST", "nothing", {"x-mqweb-token": ""}, 403),
        ("GET", "status", {}, 405),
        ("POST", "queue_ranges", {}, 400),
        ("POST", "status", {"body": b"\xc1"}, 400),
        ("POST", "status", {"body": b""}, 400),
    ],
)
async def test_only_a_known_verb_with_the_token_reaches_the_engine(
    method: str, verb: str, given: dict[str, str], status: int
) -> None:
    assert await Guarded().status_of(method, verb, **given) == status


async def test_a_long_body_is_refused_before_it_is_all_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apps.bridge.control.BODY_BYTES_MAX", 10)
    client = Client(create_app(lambda: None, token=TOKEN, allowed_hosts=HOSTS))

    answer = await client.request(
        "POST",
        PREFIX + "publish_catalog",
        body=[b"12345"] * 100,
        headers={"host": "localhost", "x-mqweb-token": TOKEN},
    )

    assert answer.status == 413
    assert client.last.taken_count == 3


async def test_nothing_is_read_of_a_request_without_the_token() -> None:
    client = Client(create_app(lambda: None, token=TOKEN, allowed_hosts=HOSTS))

    answer = await client.request(
        "POST", PREFIX + "publish_catalog", body=[b"1"] * 9, headers={"host": "localhost"}
    )

    assert answer.status == 403
    assert client.last.taken_count == 0


async def test_a_caller_that_leaves_is_not_answered() -> None:
    client = Client(create_app(lambda: None, token=TOKEN, allowed_hosts=HOSTS))
    gone = asyncio.Event()
    gone.set()

    with pytest.raises(NoAnswer):
        await client.request(
            "POST",
            PREFIX + "status",
            body=[b"\xc0"],
            headers={"host": "localhost", "x-mqweb-token": TOKEN},
            gone=gone,
            is_cut=True,
        )
