"""Locks of queues as operators see them, and take them away."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from apps.engine.grouptypes import LockChange, LockRefused
from apps.groups.models import LockTransition, QueueLock
from apps.groups.projection.groups import GroupProjector
from apps.groups.selectors import lock_id, lock_place
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine
from tests.web.group_values import NOW_MS, HandClock, lock, transition

pytestmark = pytest.mark.django_db(transaction=True)


def post(api: Api, path: str, body: Any) -> Any:
    return api.client.post(f"/api/v1{path}", data=body, content_type="application/json")


def project(engine: FakeEngine) -> None:
    projector = GroupProjector(HandClock())
    look = projector.look(engine)  # type: ignore[arg-type]
    assert look is not None
    projector.write(look)


def test_locks_are_listed_live_by_group_topic_and_queue(api: Api, engine: FakeEngine) -> None:
    engine.locks = [
        lock("g", "orders", 10, "b", expires_in_ms=-5),
        lock("g", "orders", 9, "a", epoch=2**33 + 1),
        lock("f", "orders", 0, "c"),
    ]

    body = api.get("/locks").json()

    assert [item["id"] for item in body["items"]] == ["f~orders~0", "g~orders~9", "g~orders~10"]
    assert body["items"][1] == {
        "id": "g~orders~9",
        "group": "g",
        "topic": "orders",
        "queue": 9,
        "owner": "a",
        "epoch": 2**33 + 1,
        "acquired_at": "2025-11-13T02:13:20.000Z",
        "expires_in_ms": 60_000,
        "is_expired": False,
        "suspension": None,
    }
    assert [item["is_expired"] for item in body["items"]] == [False, False, True]


def test_locks_of_one_group_and_one_topic_can_be_asked_for(api: Api, engine: FakeEngine) -> None:
    engine.locks = [
        lock(group, topic, 0, "a") for group in ("f", "g") for topic in ("bills", "orders")
    ]

    of_group = api.get("/locks", group="g").json()["items"]
    of_both = api.get("/locks", group="g", topic="orders").json()["items"]
    of_nobody = api.get("/locks", group="nobody").json()["items"]

    assert [item["topic"] for item in of_group] == ["bills", "orders"]
    assert [item["id"] for item in of_both] == ["g~orders~0"]
    assert of_nobody == []


def test_locks_are_paged_in_one_order(api: Api, engine: FakeEngine) -> None:
    engine.locks = [
        lock(group, topic, queue, "a")
        for queue in (11, 2, 0)
        for topic in ("t-1", "t", "t1")
        for group in ("a%", "a", "a|b")
    ]
    seen: list[str] = []
    cursor: str | None = ""

    while cursor is not None:
        page = api.get("/locks", limit="4", cursor=cursor).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]

    wanted = sorted((found.group, found.topic, found.queue) for found in engine.locks)
    assert seen == [lock_id(*place) for place in wanted]


@pytest.mark.parametrize("group", ["g", "%RETRY%g", "a|b", "a_b-c"])
def test_a_locks_id_names_its_place(group: str) -> None:
    found, place = lock_place(lock_id(group, "orders", 1023))

    assert (found, place.topic, place.queue) == (group, "orders", 1023)


@pytest.mark.parametrize(
    "lock",
    [
        "x", "g~orders", "g~orders~x", "g~orders~-1", "g~orders~0~0", "~orders~0", "g~~0", "17",
        "g~orders~12345", "g%20g~orders~0", "g~orders~%C2%B2",
    ],
)  # fmt: skip
def test_what_is_no_id_of_a_lock_is_a_404(api: Api, engine: FakeEngine, lock: str) -> None:
    for answer in (
        api.get(f"/locks/{lock}/transitions"),
        post(api, f"/locks/{lock}:release", {"reason": "x"}),
    ):
        assert answer.status_code == 404
        assert answer.json()["code"] == "not_found"


def test_history_is_newest_first_and_only_of_the_lock(api: Api, engine: FakeEngine) -> None:
    taken = LockChange.TAKEN_OVER
    engine.transitions = [
        transition(1, "g", "orders", 0, owner="a"),
        transition(2, "g", "orders", 1, owner="a"),
        transition(3, "g", "orders", 0, owner="b", previous_owner="a", change=taken),
        transition(4, "f", "orders", 0, owner="c"),
    ]
    project(engine)

    body = api.get("/locks/g~orders~0/transitions").json()

    assert body["items"] == [
        {
            "number": "3",
            "at": "2025-11-13T02:13:20.000Z",
            "change": "taken_over",
            "owner": "b",
            "previous_owner": "a",
            "epoch": 3,
            "reason": "",
        },
        {
            "number": "1",
            "at": "2025-11-13T02:13:20.000Z",
            "change": "acquired",
            "owner": "a",
            "previous_owner": "",
            "epoch": 1,
            "reason": "",
        },
    ]
    pages = [api.get("/locks/g~orders~0/transitions", limit="1").json()]
    pages.append(api.get("/locks/g~orders~0/transitions", cursor=pages[0]["next_cursor"]).json())
    assert [page["items"][0]["number"] for page in pages] == ["3", "1"]


def test_a_lock_is_taken_from_its_owner_with_a_reason(
    api: Api, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.locks = [lock("g", "orders", 0, "a", epoch=7), lock("g", "orders", 1, "a")]

    answer = post(api, "/locks/g~orders~0:release", {"reason": "hangs", "expected_owner": "a"})

    assert answer.status_code == 200
    assert answer.json() == {
        "id": "g~orders~0",
        "is_released": True,
        "transition": {
            "number": "1",
            "at": "1970-01-01T00:00:01.000Z",
            "change": "forced",
            "owner": "",
            "previous_owner": "a",
            "epoch": 7,
            "reason": "hangs",
        },
    }
    assert [found.queue for found in engine.locks] == [1]
    (line,) = [r for r in caplog.records if r.getMessage() == "lock_released_by_operator"]
    assert (line.group, line.topic, line.queue, line.owner) == ("g", "orders", 0, "a")
    assert line.reason == "hangs"


def test_a_lock_that_has_another_owner_by_now_is_left_alone(
    api: Api, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.locks = [lock("g", "orders", 0, "b")]

    answer = post(api, "/locks/g~orders~0:release", {"reason": "x", "expected_owner": "a"})

    assert answer.status_code == 409
    assert answer["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "lock_lost"
    assert len(engine.locks) == 1
    assert not [r for r in caplog.records if r.getMessage() == "lock_released_by_operator"]


def test_a_lock_nobody_holds_is_not_released(api: Api, engine: FakeEngine) -> None:
    answer = post(api, "/locks/g~orders~0:release", {"reason": "x"})

    assert answer.status_code == 200
    assert answer.json() == {"id": "g~orders~0", "is_released": False, "transition": None}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/reason"),
        ({"reason": ""}, "/reason"),
        ({"reason": None}, "/reason"),
        ({"reason": 1}, "/reason"),
        ({"reason": "x" * 501}, "/reason"),
        ({"reason": "a\0b"}, "/reason"),
        ({"reason": "x", "expected_owner": ""}, "/expected_owner"),
        ({"reason": "x", "expected_owner": 1}, "/expected_owner"),
        ({"reason": "x", "force": True}, "/force"),
        ([], ""),
    ],
    ids=str,
)
def test_a_bad_release_is_refused_by_its_pointer(
    api: Api, engine: FakeEngine, body: Any, pointer: str
) -> None:
    engine.locks = [lock("g", "orders", 0, "a")]

    answer = post(api, "/locks/g~orders~0:release", body)

    assert answer.status_code == 422
    assert [entry["pointer"] for entry in answer.json()["errors"]] == [pointer]
    assert len(engine.locks) == 1


def test_a_reason_of_spaces_is_none(api: Api, engine: FakeEngine) -> None:
    engine.locks = [lock("g", "orders", 0, "a")]

    answer = post(api, "/locks/g~orders~0:release", {"reason": "  "})

    assert answer.status_code == 422
    assert len(engine.locks) == 1


def browser(*permissions: str) -> Client:
    """Return a browser of somebody of the staff with some permissions."""
    user = get_user_model().objects.create_user("eve", password="x", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def test_the_admin_asks_for_a_reason_and_releases_the_chosen_locks(engine: FakeEngine) -> None:
    engine.locks = [lock("g", "orders", queue, "<i>a</i>") for queue in range(3)]
    project(engine)
    rows = list(QueueLock.objects.filter(queue__lt=2).values_list("pk", flat=True))
    chosen = {"action": "release", "_selected_action": rows}
    admin = browser("view_queuelock", "change_queuelock")

    asked = admin.post("/admin/groups/queuelock/", chosen)
    unsaid = admin.post("/admin/groups/queuelock/", {**chosen, "apply": "1", "reason": ""})
    held_then = len(engine.locks)
    done = admin.post(
        "/admin/groups/queuelock/", {**chosen, "apply": "1", "reason": "hangs"}, follow=True
    )

    assert "g in orders/0" in asked.content.decode()
    assert "&lt;i&gt;a&lt;/i&gt;" in asked.content.decode()
    assert "errorlist" in unsaid.content.decode()
    assert held_then == 3
    assert "taken from" in done.content.decode()
    assert [found.queue for found in engine.locks] == [2]
    assert [line.reason for line in engine.transitions] == ["hangs (eve)"] * 2


def test_the_admin_leaves_a_lock_alone_that_has_another_owner_by_now(engine: FakeEngine) -> None:
    engine.locks = [lock("g", "orders", 0, "a")]
    project(engine)
    engine.locks = [lock("g", "orders", 0, "b")]
    chosen = {"action": "release", "_selected_action": [QueueLock.objects.get().pk]}

    answer = browser("view_queuelock", "change_queuelock").post(
        "/admin/groups/queuelock/", {**chosen, "apply": "1", "reason": "hangs"}, follow=True
    )

    assert "the lock is b&#x27;s" in answer.content.decode()
    assert len(engine.locks) == 1


def test_who_may_only_look_cannot_release(engine: FakeEngine) -> None:
    engine.locks = [lock("g", "orders", 0, "a")]
    project(engine)
    chosen = {"action": "release", "_selected_action": [QueueLock.objects.get().pk]}
    guest = browser("view_queuelock")

    page = guest.get("/admin/groups/queuelock/")
    guest.post("/admin/groups/queuelock/", {**chosen, "apply": "1", "reason": "hangs"})

    assert page.status_code == 200
    assert 'value="release"' not in page.content.decode()
    assert "Not offered to you: “Take from its owner" in page.content.decode()
    assert len(engine.locks) == 1


@pytest.mark.parametrize(
    "model",
    ["member", "subscription", "queueassignment", "rebalance", "locktransition", "queuelock"],
)
def test_what_is_the_engines_can_be_looked_at_and_not_changed(
    engine: FakeEngine, model: str
) -> None:
    user = get_user_model().objects.create_superuser("root", password="x")
    admin = Client()
    admin.force_login(user)
    engine.transitions = [transition(1, "g", "orders", 0)]
    engine.locks = [lock("g", "orders", 0, "a")]
    project(engine)

    assert admin.get(f"/admin/groups/{model}/").status_code == 200
    assert admin.get(f"/admin/groups/{model}/?q=orders").status_code == 200
    assert admin.get(f"/admin/groups/{model}/add/").status_code == 403
    line = LockTransition.objects.get()
    path = f"/admin/groups/locktransition/{line.pk}"
    assert admin.post(f"{path}/delete/", {"post": "yes"}).status_code == 403


def refused(minute: int, count: int, client_id: str = "b", *, queue: int = 0) -> LockRefused:
    minute_ms = NOW_MS - NOW_MS % 60_000 + minute * 60_000
    return LockRefused(
        group="g",
        topic="orders",
        queue=queue,
        owner="a",
        client_id=client_id,
        minute_ms=minute_ms,
        count=count,
        last_ms=minute_ms + 1_000,
    )


def test_refusals_of_a_lock_are_listed_by_minute_and_client(api: Api, engine: FakeEngine) -> None:
    engine.refused = [refused(0, 4), refused(0, 2, "c"), refused(1, 9), refused(1, 1, queue=5)]
    project(engine)

    items = api.get("/locks/g~orders~0/refusals").json()["items"]

    assert [(item["client_id"], item["count"]) for item in items] == [("b", 9), ("c", 2), ("b", 4)]
    assert {item["owner"] for item in items} == {"a"}
    first = api.get("/locks/g~orders~0/refusals?limit=1").json()
    assert len(first["items"]) == 1
    rest = api.get(f"/locks/g~orders~0/refusals?cursor={first['next_cursor']}").json()
    assert [item["count"] for item in rest["items"]] == [2, 4]
