"""Live sockets with access on: asked at the handshake, and closed when the answer changes."""

import asyncio
from typing import Any

import pytest

from apps.access import asking, sockets
from apps.access.gate import Gate, Rights, unauthenticated
from apps.access.policy import Book, Caller, Principal, Role, grants_of
from apps.access.policy.book import Account
from tests.doors.fake_engine import ManualClock


class Viewer:
    """One side of a socket, and the other side's answers."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self._events = [{"type": "websocket.connect"}]

    async def receive(self) -> dict[str, Any]:
        if self._events:
            return self._events.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, event: dict[str, Any]) -> None:
        self.sent.append(event)


async def live(_scope: Any, receive: Any, send: Any) -> None:
    """Serve as the console's socket does: until somebody goes."""
    await receive()
    await send({"type": "websocket.accept"})
    await receive()


def book(role: Role, version: int = 1, mark: str = "m") -> Book:
    account = Account(principal=Principal("vera", grants_of(role)), mark=mark)
    return Book(version=version, accounts={7: account})


class Stage:
    """A gate with a book that changes, and rights for who shakes hands."""

    def __init__(self) -> None:
        self.book = book(Role.VIEWER)
        self.clock = ManualClock()
        self.gate = Gate(lambda: self.book, self.clock)
        self.is_known = True

    async def rights_of(self, _scope: Any) -> Rights:
        if not self.is_known:
            raise unauthenticated("nobody is signed in", is_wrong=False)
        caller = Caller(
            principal=self.book.accounts[7].principal, account=7, mark="m", session="s",
            until_ms=self.clock.wall_ms() + 60_000,
        )  # fmt: skip
        return Rights(self.gate, caller)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(asking, "is_on", lambda: True)
    return Stage()


async def opened(stage: Stage) -> tuple[Viewer, "asyncio.Task[None]"]:
    viewer = Viewer()
    app = sockets.with_access(live, rights_of=stage.rights_of)
    task = asyncio.ensure_future(app({"type": "websocket"}, viewer.receive, viewer.send))  # type: ignore[arg-type]
    for _ in range(10):
        await asyncio.sleep(0)
    return viewer, task


@pytest.mark.parametrize("how", ["role", "password", "closed", "time", "signed out"])
async def test_an_open_socket_is_closed_when_its_viewer_may_not_look_any_more(
    stage: Stage, how: str
) -> None:
    viewer, task = await opened(stage)
    stage.gate.look()
    assert viewer.sent == [{"type": "websocket.accept"}]
    assert not task.done()

    if how == "role":
        stage.book = book(Role.NONE, 2)
    elif how == "password":
        stage.book = book(Role.VIEWER, 2, "n")
    elif how == "closed":
        stage.book = Book(version=2)
    elif how == "time":
        stage.clock.now_ms += 60_000
    else:
        stage.gate.end_session("s")
    stage.gate.look()
    await task

    assert viewer.sent[-1] == {"type": "websocket.close", "code": 4403}


async def test_a_change_that_leaves_the_right_leaves_the_socket(stage: Stage) -> None:
    viewer, task = await opened(stage)

    stage.book = book(Role.OPERATOR, 2)
    stage.gate.look()
    await asyncio.sleep(0)

    assert viewer.sent == [{"type": "websocket.accept"}]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not stage.gate._watches


async def test_who_may_not_look_is_refused_at_the_handshake(stage: Stage) -> None:
    stage.book = book(Role.NONE)
    viewer, task = await opened(stage)
    await task
    stage.is_known = False
    stranger, other = await opened(stage)
    await other

    assert viewer.sent == stranger.sent == [{"type": "websocket.close", "code": 4403}]


async def test_an_application_that_ends_by_itself_leaves_nothing_behind(stage: Stage) -> None:
    async def short(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "websocket.close"})

    viewer = Viewer()
    app = sockets.with_access(short, rights_of=stage.rights_of)

    await app({"type": "websocket"}, viewer.receive, viewer.send)

    assert viewer.sent == [{"type": "websocket.close"}]
    assert not stage.gate._watches
