"""Every act of the admin, by everybody: allowed where whoever asks could call the API for it.

The acts are those that are registered, so a new one is asked the same questions.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Model
from django.test import Client
from django.urls import resolve

from apps.access import accounts, asking
from apps.access.policy import CLUSTER, Action, Resource, Role, decide
from apps.access.reaching import reach
from apps.access.table import Need, Somewhere, Throughout
from apps.core.adminacts import Act, acts_of
from apps.core.enginerows import EngineRowsAdmin
from mqweb.rights import TABLE
from tests.web.admin.rows import made
from tests.web.console.test_pages import parsed
from tests.web.fake_care import delayed_message
from tests.web.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db

admin.autodiscover()
PAGES: Mapping[type[Model], Any] = admin.site._registry
ACTS = [(model, name) for model, page in PAGES.items() for name in acts_of(page)]
HELD = [
    (model, name)
    for model, page in PAGES.items()
    if isinstance(page, EngineRowsAdmin)
    for name in page.held_acts
]
# Django's own, where the rows have no other way: whoever comes in may do it, as the API says.
ON_ROWS_OF_ACCESS = {("auth.User", "delete_selected"), ("access.Grant", "delete_selected")}


@pytest.fixture
def people(closed: None, django_capture_on_commit_callbacks: Any) -> dict[str, Client]:
    """Return browsers by who uses them: a role each, and two whose grants say otherwise."""
    with django_capture_on_commit_callbacks(execute=True):
        for name, role in (
            ("viewer", Role.VIEWER), ("operator", Role.OPERATOR), ("admin", Role.ADMIN),
            ("keeper", Role.NONE), ("barred", Role.ADMIN),
        ):  # fmt: skip
            accounts.create_account(name=name, password="Correct horse 1", role=role, by="t")
        get_user_model().objects.filter(username="keeper").update(is_staff=True)
        grant(name="keeper", kind="cluster", actions=["administer"], match="any")
        acts = [action.value for action in Action if action is not Action.ADMINISTER]
        deny: dict[str, Any] = {"name": "barred", "effect": "deny"}
        rest = [one for one in acts if one in ("redrive", "decide", "care", "run")]
        grant(kind="cluster", actions=rest, match="any", **deny)
        grant(kind="topic", actions=["decide", "run"], match="any", **deny)
        grant(kind="group", actions=["redrive", "release", "reset", "peek"], match="prefix",
              resource="group-", **deny)  # fmt: skip
        grant(kind="topic", actions=["delete"], match="prefix", resource="name-", **deny)
    found = {}
    for user in get_user_model().objects.all():
        found[user.get_username()] = Client()
        found[user.get_username()].force_login(user)
    return found


def grant(**values: Any) -> None:
    accounts.add_grant(by="t", **values)


def sees(name: str, model: type[Model]) -> bool:
    """Say whether somebody may look at the rows of a model in the admin."""
    user = get_user_model().objects.get(username=name)
    principal = asking.gate.book().accounts[user.pk].principal
    if decide(principal, Action.ADMINISTER, CLUSTER).is_allowed:
        return True
    row = TABLE.model(model._meta.label_lower).see
    if not isinstance(row, Throughout):
        return False
    return principal.sees_everything and (principal.peeks_everywhere or not row.peeks)


def api_allows(client: Client, method: str, path: str, names: Sequence[str] | None = None) -> bool:
    """Say whether the API would answer a call, by the decision in front of it.

    With `names`, also by the one about the topics or groups that the address leads to; where there
    are none it is about all.
    """
    request = client.get("/problems/").wsgi_request
    access = asking.Access(asking.by_session(request))
    request.access = access  # type: ignore[attr-defined]
    match = resolve(path)
    row = TABLE.row(match.route, method)
    if names is not None and isinstance(row, Somewhere):
        places = [Resource(row.kind, name) for name in names] or [CLUSTER]
        if not all(access.may_one(row.actions, place).is_allowed for place in places):
            return False
    return reach(request, method, path).is_allowed


def address(model: type[Model]) -> str:
    return f"/admin/{model._meta.app_label}/{model._meta.model_name}/"


def path_of(act: Act, thing: Any) -> str:
    path = "/" + act.call.route
    for part, value in act.parts(thing).items():
        path = path.replace(f"<str:{part}>", value)
    return path


def label(found: tuple[type[Model], str]) -> str:
    return f"{found[0]._meta.label}-{found[1]}"


def test_every_act_of_the_admin_is_declared_with_the_call_it_stands_for(rf: Any) -> None:
    request = rf.get("/admin/")
    request.user = get_user_model()(is_superuser=True, is_staff=True, is_active=True)
    bare = {
        (model._meta.label, name)
        for model, page in PAGES.items()
        for name in page.get_actions(request)
        if name not in acts_of(page)
    }

    # Whoever may not delete rows is not offered Django's own way to.
    assert {(model, name) for model, name in bare if name != "delete_selected"} == set()
    assert {
        (model._meta.label, "delete_selected")
        for model, page in PAGES.items()
        if (model._meta.label, "delete_selected") in bare and page.has_delete_permission(request)
    } <= ON_ROWS_OF_ACCESS
    for model, name in ACTS:
        call = acts_of(PAGES[model])[name].call
        assert isinstance(TABLE.row(call.route, call.method), Need | Somewhere), (model, name)


@pytest.mark.parametrize("found", ACTS, ids=label)
def test_an_act_on_a_row_is_allowed_to_those_who_could_call_the_api(
    found: tuple[type[Model], str], people: dict[str, Client], engine: FakeEngine
) -> None:
    model, name = found
    row = made(model, 1)
    act = acts_of(PAGES[model])[name]
    chosen = {"action": name, "_selected_action": [row.pk]}
    outcomes = {}

    for who, client in people.items():
        answer = client.post(address(model), chosen, follow=False)
        if isinstance(act, Act):
            (thing,) = act.things_of(act.rows_of(model._default_manager.all()), 1)
            is_called = api_allows(client, act.call.method, path_of(act, thing), act.names(thing))
            inputs = (
                [one.get("name") for one in parsed(answer).all("input")]
                if answer.status_code == 200
                else []
            )
            is_offered = "apply" in inputs
        else:
            group = row.group  # type: ignore[attr-defined]
            path = "/" + act.call.route.replace("<str:group>", group)
            is_called = api_allows(client, act.call.method, path)
            # What only leads on is offered to those who may do it anywhere.
            is_offered = is_called if who == "barred" else _is_done(answer, address(model))
        outcomes[who] = is_offered
        assert is_offered == (is_called and sees(who, model)), (who, is_offered, is_called)

    assert outcomes["admin"], outcomes
    assert not outcomes["viewer"]
    is_for_admins = act.call.route.startswith(("api/v1/accounts", "api/v1/tokens"))
    is_deletion = model._meta.label == "topics.Topic"
    assert outcomes["operator"] == (not is_for_admins and not is_deletion)


def _is_done(answer: Any, back: str) -> bool:
    """Say whether an answer is a file or leads on, and not back to the list or away."""
    if answer.status_code == 302:
        return answer["Location"].startswith("/groups/")
    return answer.status_code == 200 and "attachment" in answer.get("Content-Disposition", "")


@pytest.mark.parametrize("found", [
    one for one in ACTS if isinstance(acts_of(PAGES[one[0]])[one[1]], Act)
], ids=label)  # fmt: skip
def test_what_one_may_not_do_is_left_even_where_it_was_confirmed(
    found: tuple[type[Model], str],
    people: dict[str, Client],
    engine: FakeEngine,
) -> None:
    model, name = found
    row = made(model, 1)
    before = model._default_manager.filter(pk=row.pk).values().get()
    words = {"reason": "because", "where": "origin", "apply": "1"}
    act = acts_of(PAGES[model])[name]
    assert isinstance(act, Act)
    (thing,) = act.things_of(act.rows_of(model._default_manager.all()), 1)

    for who in ("viewer", "operator", "keeper", "barred"):
        client = people[who]
        path = path_of(act, thing)
        if sees(who, model) and api_allows(client, act.call.method, path, act.names(thing)):
            continue
        client.post(address(model), {"action": name, "_selected_action": [row.pk], **words})
        assert model._default_manager.filter(pk=row.pk).values().get() == before, who


@pytest.mark.parametrize("found", HELD, ids=label)
def test_an_act_on_what_the_broker_holds_is_allowed_to_those_who_could_call_the_api(
    found: tuple[type[Model], str], people: dict[str, Client], engine: FakeEngine
) -> None:
    model, name = found
    act = PAGES[model].held_acts[name]
    engine.waiting = [delayed_message(1)]
    path = "/" + act.call.route.replace("<int:half_offset>", "7").replace(
        "<str:transaction_id>", "a"
    )
    outcomes = {}

    for who, client in people.items():
        answer = client.post(f"{address(model)}held/", {"act": name, "key": "handle-1"})
        is_called = api_allows(client, act.call.method, path)
        outcomes[who] = answer.status_code == 200
        assert outcomes[who] == (is_called and sees(who, model)), who

    assert outcomes == {
        "viewer": False, "operator": True, "admin": True, "keeper": False, "barred": False,
    }  # fmt: skip


def test_what_the_broker_holds_of_a_topic_is_left_by_who_may_not_decide_about_that_one(
    people: dict[str, Client], engine: FakeEngine, django_capture_on_commit_callbacks: Any
) -> None:
    # As the engine writes it, but for the part that makes it one of a store's.
    handle = base64.urlsafe_b64encode(b"v1 orders 0 1000 id-1 1 2 none").decode()
    engine.waiting = [delayed_message(1, handle=handle)]
    with django_capture_on_commit_callbacks(execute=True):
        accounts.create_account(name="most", password="Correct horse 1", role=Role.ADMIN, by="t")
        grant(name="most", kind="topic", actions=["decide"], match="literal", resource="orders",
              effect="deny")  # fmt: skip
    client = Client()
    client.force_login(get_user_model().objects.get(username="most"))
    said = {}

    for who, browser in (("most", client), ("admin", people["admin"])):
        wish = {"act": "cancel", "key": handle, "apply": "1"}
        answer = browser.post("/admin/delays/delaylevel/held/", wish, follow=True)
        said[who] = " ".join(parsed(answer).texts)

    assert "no right to decide topic 'orders'" in said["most"]
    assert "cancelled: nobody gets it" not in said["most"]
    assert "cancelled: nobody gets it" in said["admin"]


def test_who_may_not_do_something_anywhere_reads_so_in_place_of_the_action(
    people: dict[str, Client], engine: FakeEngine
) -> None:
    for model in dict.fromkeys(model for model, _name in ACTS):
        made(model, 1)
    for model, name in ACTS:
        act = acts_of(PAGES[model])[name]
        page = parsed(people["keeper"].get(address(model)))
        offered = [one.get("value") for one in page.all("option")]
        is_needed = TABLE.row(act.call.route, act.call.method)
        assert isinstance(is_needed, Need | Somewhere)
        if is_needed.actions == (Action.ADMINISTER,):
            assert name in offered, (model, name)
        else:
            assert name not in offered, (model, name)
            assert f"Not offered to you: “{act.description}”" in " ".join(page.texts)


def test_rows_that_the_broker_holds_are_shown_to_those_who_may_look_at_their_topic(
    people: dict[str, Client], engine: FakeEngine
) -> None:
    engine.waiting = [delayed_message(1)]

    seen = {
        who: "id-1" in " ".join(parsed(people[who].get("/admin/delays/delaylevel/held/")).texts)
        for who in ("admin", "keeper")
    }

    assert seen == {"admin": True, "keeper": False}


def test_a_topic_is_made_changed_and_deleted_by_those_who_could_call_the_api(
    people: dict[str, Client], engine: FakeEngine
) -> None:
    from apps.topics.models import Topic

    topic = made(Topic, 1)
    form = {"name": "orders", "type": "MIXED", "queue_count": 4, "perm": 6}
    answers = {
        who: (
            people[who].get("/admin/topics/topic/add/").status_code,
            people[who].post("/admin/topics/topic/add/", form).status_code,
            people[who].get(f"/admin/topics/topic/{topic.pk}/delete/").status_code,
            b'name="apply"' in people[who].get(f"/admin/topics/topic/{topic.pk}/delete/").content,
        )
        for who in ("operator", "keeper", "barred", "admin")
    }

    assert answers == {
        "operator": (200, 302, 403, False),
        "keeper": (403, 403, 403, False),
        # The topic is there by now, so the form comes back.
        "barred": (200, 200, 200, False),
        "admin": (200, 200, 200, True),
    }
    assert Topic.objects.filter(name="orders").count() == 1
