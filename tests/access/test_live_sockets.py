"""Live sockets with access on: each view is asked about, and closed when the answer changes."""

import asyncio
from typing import Any

import pytest

from apps.access import asking, sockets
from apps.access.gate import HIDDEN, Denied, Gate, Rights, unauthenticated
from apps.access.policy import CLUSTER, Book, Caller, Principal, Role, checked, grants_of
from apps.access.policy.book import Account
from apps.access.policy.resources import Resource, group, topic
from apps.console.watching import resource_of, sight_on
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


async def live(scope: Any, receive: Any, send: Any) -> None:
    """Serve as the console's socket does: those who may watch, until somebody goes."""
    await receive()
    await send({"type": "websocket.accept"})
    try:
        sight_on(scope, scope["view"])
    except Denied as denied:
        code = 4404 if denied.code == HIDDEN else sockets.MAY_NOT
        await send({"type": "websocket.close", "code": code})
        return
    await receive()


def book(role: Role, version: int = 1, mark: str = "m", **names: str) -> Book:
    """Return a book with one account: a role, and what it may see by kind and name."""
    grants = [
        checked(kind=kind, actions=["get"], match="literal", name=name)
        for kind, name in names.items()
    ]
    account = Account(principal=Principal("vera", [*grants_of(role), *grants]), mark=mark)
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


async def opened(stage: Stage, view: str = "clockwork") -> tuple[Viewer, "asyncio.Task[None]"]:
    viewer = Viewer()
    scope = {"type": "websocket", "view": view}
    app = sockets.with_access(live, rights_of=stage.rights_of)
    task = asyncio.ensure_future(app(scope, viewer.receive, viewer.send))  # type: ignore[arg-type]
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

    # Without the handshake a page would not be told why.
    assert (
        viewer.sent
        == stranger.sent
        == [
            {"type": "websocket.accept"},
            {"type": "websocket.close", "code": 4403},
        ]
    )


@pytest.mark.parametrize(
    ("view", "resource"),
    [
        ("overview", None), ("locks", None), ("job.7", None), ("delays", None),
        ("clockwork", CLUSTER), ("pipelines", CLUSTER), ("run.7", CLUSTER),
        ("group.billing", group("billing")), ("topic.orders", topic("orders")),
        ("topic.a.b", topic("a.b")), ("group", CLUSTER),
    ],
)  # fmt: skip
def test_a_view_needs_the_right_to_what_it_shows(view: str, resource: Resource | None) -> None:
    assert resource_of(view) == resource


async def test_who_may_see_a_group_watches_that_group_and_nothing_else(stage: Stage) -> None:
    stage.book = book(Role.NONE, group="billing", topic="orders")
    ends = {}
    for view in (
        "group.billing", "topic.orders", "overview", "group.other", "topic.other", "clockwork",
    ):  # fmt: skip
        viewer, task = await opened(stage, view)
        ends[view] = viewer.sent[-1].get("code")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert ends == {
        "group.billing": None, "topic.orders": None, "overview": None,
        # What may not be known of is answered as what there is not.
        "group.other": 4404, "topic.other": 4404, "clockwork": 4403,
    }  # fmt: skip


async def test_each_view_is_closed_when_its_own_right_is_gone(stage: Stage) -> None:
    stage.book = book(Role.NONE, group="billing", topic="orders")
    of_group, group_task = await opened(stage, "group.billing")
    of_topic, topic_task = await opened(stage, "topic.orders")

    stage.book = book(Role.NONE, 2, topic="orders")
    stage.gate.look()
    await group_task

    assert of_group.sent[-1] == {"type": "websocket.close", "code": 4403}
    await topic_task
    # The other's page names groups that read the topic, so it is asked anew what it shows.
    assert of_topic.sent[-1] == {"type": "websocket.close", "code": 4205}


@pytest.mark.parametrize("what", ["less", "more", "another role"])
async def test_who_sees_something_else_from_now_on_is_told_to_come_back(
    stage: Stage, what: str
) -> None:
    stage.book = book(Role.NONE, group="billing", topic="orders")
    viewer, task = await opened(stage, "overview")

    if what == "less":
        stage.book = book(Role.NONE, 2, group="billing")
    elif what == "more":
        stage.book = book(Role.NONE, 2, group="billing", topic="invoices")
    else:
        stage.book = book(Role.VIEWER, 2, group="billing", topic="orders")
    stage.gate.look()
    await task

    assert viewer.sent[-1] == {"type": "websocket.close", "code": 4205}


async def test_a_book_with_the_same_rights_leaves_what_is_shown(stage: Stage) -> None:
    stage.book = book(Role.NONE, group="billing", topic="orders")
    viewer, task = await opened(stage, "overview")

    stage.book = book(Role.NONE, 2, topic="orders", group="billing")
    stage.gate.look()
    await asyncio.sleep(0)

    assert viewer.sent == [{"type": "websocket.accept"}]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_socket_that_nobody_was_asked_about_shows_nothing(stage: Stage) -> None:
    with pytest.raises(Denied):
        sight_on({"type": "websocket"}, "overview")


async def test_an_application_that_ends_by_itself_leaves_nothing_behind(stage: Stage) -> None:
    async def short(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "websocket.close"})

    viewer = Viewer()
    app = sockets.with_access(short, rights_of=stage.rights_of)

    await app({"type": "websocket"}, viewer.receive, viewer.send)

    assert viewer.sent == [{"type": "websocket.close"}]
    assert not stage.gate._watches
