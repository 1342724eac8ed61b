"""The admin by whoever asks: every model with its list, rows and forms, and what is refused how."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client

from apps.access import accounts
from apps.access.policy import Role
from apps.access.table import Need, Throughout
from apps.audit.models import AuditEntry
from apps.core.adminacts import ActingAdmin
from apps.core.languages import LANGUAGE_COOKIE, Language
from apps.deadletters.models import DeadLetter, ResendJob
from apps.groups.models import ConsumerGroup, QueueLock
from apps.topics.models import Topic
from mqweb.rights import TABLE
from tests.web.admin.rows import made
from tests.web.admin.test_every_model import REGISTERED, address, label
from tests.web.console.test_pages import parsed
from tests.web.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db

# What holds somebody's secret, or says who may what and who did what.
FOR_ADMINS = {
    "access.AccountSession", "access.ApiToken", "access.Grant", "access.SecondFactor",
    "alerts.Channel", "alerts.Delivery", "alerts.Notification", "audit.AuditEntry", "auth.User",
}  # fmt: skip
# What holds keys of messages, or what consumers say of a failure.
INSIDE = {"deadletters.DeadLetter", "deadletters.ResendJob", "deadletters.ResendTrouble"}
# Who changes what, beside those who administer: an operator makes and changes, and deletes nothing.
FORMS = {"topics.Topic", "groups.ConsumerGroup"}
PEOPLE = (
    "viewer", "operator", "admin", "nobody", "narrowed", "blinded", "hushed", "limited", "token"
)  # fmt: skip
OUT, SEES, PEEKS, ALL = "out", "sees", "peeks", "all"
LEVELS = {
    "viewer": SEES, "operator": PEEKS, "admin": ALL, "nobody": OUT, "narrowed": OUT,
    # A denied name is not left out of a list of all; a denied act is another matter.
    "blinded": OUT, "hushed": SEES, "limited": PEEKS, "token": OUT,
}  # fmt: skip


def grant(name: str, **values: Any) -> None:
    accounts.add_grant(name=name, by="t", **values)


@pytest.fixture
def people(
    closed: None, engine: FakeEngine, django_capture_on_commit_callbacks: Any
) -> dict[str, Client]:
    """Return browsers by who uses them: roles, and roles whose grants say more or less."""
    with django_capture_on_commit_callbacks(execute=True):
        for name, role in (
            ("viewer", Role.VIEWER), ("operator", Role.OPERATOR), ("admin", Role.ADMIN),
            ("nobody", Role.NONE), ("narrowed", Role.NONE), ("blinded", Role.OPERATOR),
            ("hushed", Role.OPERATOR), ("limited", Role.OPERATOR), ("token", Role.NONE),
        ):  # fmt: skip
            accounts.create_account(name=name, password="Correct horse 1", role=role, by="t")
        every = {"kind": "topic", "match": "any", "actions": ["get", "update"]}
        grant("narrowed", **{**every, "match": "prefix", "resource": "name-"})
        grant(
            "narrowed", kind="group", match="prefix", resource="name-", actions=["get", "redrive"]
        )
        grant("narrowed", kind="cluster", match="any", actions=["get", "redrive"])
        # Sees all topics and no group.
        grant("token", **every)
        deny = {"match": "literal", "effect": "deny"}
        grant("blinded", kind="topic", resource="covert", actions=["get", "list"], **deny)
        grant("hushed", kind="group", resource="covert", actions=["peek"], **deny)
        grant("limited", kind="group", resource="group-1", actions=["redrive", "release"], **deny)
        grant("limited", kind="topic", resource="name-1", actions=["update"], **deny)
    # The flag of Django's says nothing here.
    User.objects.filter(username="nobody").update(is_staff=True)
    User.objects.filter(username="admin").update(is_staff=False)
    found = {}
    for user in get_user_model().objects.all():
        found[user.get_username()] = Client(raise_request_exception=False)
        found[user.get_username()].force_login(user)
    return found


def is_seen(model: type[Model], level: str) -> bool:
    if label(model) in FOR_ADMINS:
        return level == ALL
    return level in ((PEEKS, ALL) if label(model) in INSIDE else (SEES, PEEKS, ALL))


def said(who: str, answers: dict[str, Any]) -> str:
    return f"{who}: { {what: one.status_code for what, one in answers.items()} }"


def test_every_model_says_what_it_needs_and_none_that_is_not_there_does() -> None:
    assert set(TABLE.models) == {label(model).lower() for model in REGISTERED}


def test_every_page_of_the_admin_asks_the_table_of_rights() -> None:
    for model in REGISTERED:
        assert isinstance(admin.site._registry[model], ActingAdmin), label(model)


def test_a_model_that_says_nothing_is_for_who_administers(rf: Any, people: Any) -> None:
    rows = TABLE.model("some.model")

    assert {type(row) for row in (rows.see, rows.add, rows.change, rows.delete)} == {Need}
    assert isinstance(TABLE.row("admin/some/model/", "GET"), Need)
    assert people["operator"].get("/admin/some/model/").status_code == 403
    assert people["admin"].get("/admin/some/model/").status_code == 404


def test_what_holds_secrets_is_for_who_administers_and_what_holds_messages_for_who_peeks() -> None:
    seen = {name: rows.see for name, rows in TABLE.models.items()}

    assert {name for name, row in seen.items() if isinstance(row, Need)} == {
        name.lower() for name in FOR_ADMINS
    }
    assert {name for name, row in seen.items() if row == Throughout(peeks=True)} == {
        name.lower() for name in INSIDE
    }


@pytest.mark.parametrize("model", REGISTERED, ids=label)
def test_each_model_is_answered_to_each_as_they_may_see_and_change_it(
    model: type[Model], people: dict[str, Client]
) -> None:
    # Far from those that come of this test, as entries of the audit do.
    row = made(model, 500)

    for who, client in people.items():
        level = LEVELS[who]
        is_open = is_seen(model, level)
        answers = {
            what: client.get(
                address(model, what, *([] if what in ("changelist", "add") else [row.pk]))
            )
            for what in ("changelist", "change", "add", "delete", "history")
        }
        told = said(who, answers)
        assert answers["changelist"].status_code == (200 if is_open else 403), told
        assert answers["change"].status_code == (200 if is_open else 403), told
        # Whoever may not so much as see a row is not shown a form of it either.
        is_added = label(model) in FORMS | {"access.Grant", "auth.User"} and (
            level in (PEEKS, ALL) or (who == "hushed" and label(model) in FORMS)
        )
        assert answers["add"].status_code == (200 if is_open and is_added else 403), told
        is_deleted = level == ALL and label(model) in ("access.Grant", "topics.Topic")
        assert answers["delete"].status_code == (200 if is_deleted else 403), told
        assert answers["history"].status_code == (200 if level == ALL else 403), told
        for what in ("changelist", "change", "add", "delete"):
            path = address(model, what, *([] if what in ("changelist", "add") else [row.pk]))
            if level != ALL:
                answer = client.post(path, {"action": "delete_selected", "post": "yes",
                                            "_selected_action": [row.pk]})  # fmt: skip
                assert answer.status_code in (200, 302, 403), (who, what, answer.status_code)
                assert is_open or answer.status_code == 403, (who, what)
    assert model._default_manager.filter(pk=row.pk).exists()


@pytest.mark.parametrize("who", PEOPLE)
def test_the_first_page_shows_what_its_viewer_may_see_and_no_more(
    who: str, people: dict[str, Client]
) -> None:
    answer = people[who].get("/admin/")
    level = LEVELS[who]

    assert answer.status_code == (403 if level == OUT else 200)
    shown = {
        model["model"]._meta.label
        for app in (answer.context or {}).get("app_list", [])
        for model in app["models"]
    }
    assert shown == {label(model) for model in REGISTERED if is_seen(model, level)}


def test_who_sees_a_part_is_told_why_and_led_to_the_console(people: dict[str, Client]) -> None:
    client = people["narrowed"]
    page = client.get("/admin/").content.decode()
    client.cookies[LANGUAGE_COOKIE] = Language.CHINESE.value
    in_chinese = client.get("/admin/topics/topic/").content.decode()

    assert "narrowed does not see every topic and every group" in page
    assert "lists whole tables" in page
    assert '<a href="/">The console</a>' in page
    assert "does not see" not in in_chinese
    assert "whole tables" not in in_chinese
    assert '<a href="/">' in in_chinese


def test_who_misses_one_model_is_led_back_to_the_others(people: dict[str, Client]) -> None:
    page = people["viewer"].get("/admin/deadletters/deadletter/").content.decode()

    assert "viewer may not read the messages of every topic and group" in page
    assert '<a href="/admin/">' in page


@pytest.mark.parametrize("who", ["viewer", "operator", "hushed", "limited", "admin"])
def test_nobody_is_led_to_a_page_of_the_admin_that_is_refused(
    who: str, people: dict[str, Client]
) -> None:
    for number, model in enumerate(REGISTERED):
        if not model._default_manager.exists():
            # Rows that they refer to are a thousand further on, and each has its own.
            made(model, 7 * number)
    client, seen, todo = people[who], set[str](), ["/admin/"]
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        answer = client.get(path)
        assert answer.status_code in (200, 302), (path, answer.status_code)
        # Filters and orders of a list are the list; what leads out is tried elsewhere.
        found = links_of(answer, path)
        todo.extend(link for link in found if link.startswith("/admin/") and "?" not in link)
    assert len(seen) > 80


def links_of(answer: Any, path: str) -> Iterator[str]:
    if answer.status_code == 302:
        yield answer["Location"]
        return
    for link in re.findall(r'<a [^>]*href="([^"#]*)', answer.content.decode()):
        yield urljoin(path, link).split("?")[0] if "change" in link else urljoin(path, link)


# --- acts ----------------------------------------------------------------------------------------


def test_an_operator_sends_dead_letters_again_by_a_job_that_bears_their_name(
    people: dict[str, Client],
) -> None:
    letter = made(DeadLetter, 1)
    DeadLetter.objects.update(origin_topic="orders")
    made(Topic, 7)
    Topic.objects.update(name="orders")
    chosen = {"action": "resend", "_selected_action": [letter.pk]}
    client = people["operator"]

    page = client.post(address(DeadLetter, "changelist"), chosen)
    wish = {**chosen, "apply": "1", "where": "origin", "rate_per_s": "5"}
    answer = client.post(address(DeadLetter, "changelist"), wish, follow=True)

    assert 'name="apply"' in page.content.decode()
    job = ResendJob.objects.get()
    assert (job.group, job.created_by, job.total) == ("group-1", "operator", 1)
    assert f"/admin/deadletters/resendjob/{job.pk}/change/" in answer.content.decode()
    entry = AuditEntry.objects.get(act="deadletters.resend", result="done")
    assert (entry.by, entry.door) == ("operator", "admin")


def test_what_is_denied_by_name_is_left_and_the_rest_is_done(people: dict[str, Client]) -> None:
    rows = [made(DeadLetter, number) for number in (1, 2)]
    DeadLetter.objects.update(origin_topic="orders")
    chosen = {"action": "discard", "_selected_action": [row.pk for row in rows],
              "reason": "because", "apply": "1"}  # fmt: skip

    answer = people["limited"].post(address(DeadLetter, "changelist"), chosen, follow=True)

    assert "limited has no right to redrive group" in " ".join(parsed(answer).texts)
    states = dict(DeadLetter.objects.values_list("group", "state"))
    assert states == {"group-1": "waiting", "group-2": "discarded"}


def test_a_viewer_reads_why_an_act_is_not_offered(people: dict[str, Client]) -> None:
    made(QueueLock, 1)

    page = parsed(people["viewer"].get(address(QueueLock, "changelist")))

    assert "release" not in [one.get("value") for one in page.all("option")]
    assert (
        "“Take from its owner (asks for a reason)” (viewer has no right to release any group)"
        in (" ".join(page.texts))
    )


@pytest.mark.parametrize("posted", [{"action": "release"}, {"action": ["", "release"], "index": 1}])
def test_an_act_that_is_sent_without_being_offered_is_refused_and_written_down(
    people: dict[str, Client], posted: dict[str, Any]
) -> None:
    lock = made(QueueLock, 1)
    values = {**posted, "_selected_action": [lock.pk], "reason": "x", "apply": "1"}

    answer = people["viewer"].post(address(QueueLock, "changelist"), values)

    assert answer.status_code == 403
    assert "viewer has no right to release any group" in answer.content.decode()
    entry = AuditEntry.objects.get(act="access.refused")
    assert (entry.by, entry.door, entry.code, entry.name) == (
        "viewer", "admin", "forbidden", address(QueueLock, "changelist")
    )  # fmt: skip
    assert "no right to release any group" in entry.detail
    assert QueueLock.objects.get().state == "held"


def test_what_the_broker_holds_is_cancelled_by_an_operator_and_not_by_a_viewer(
    people: dict[str, Client], engine: FakeEngine
) -> None:
    from tests.web.fake_care import delayed_message

    engine.waiting = [delayed_message(1)]
    path, wish = "/admin/delays/delaylevel/held/", {"act": "cancel", "key": "handle-1"}

    refused = people["viewer"].post(path, {**wish, "apply": "1"})
    asked = people["operator"].post(path, wish)

    assert (refused.status_code, asked.status_code) == (403, 200)
    assert len(engine.waiting) == 1
    assert AuditEntry.objects.get(act="access.refused").by == "viewer"


@pytest.mark.parametrize("act", ["export_csv", "export_json"])
def test_bodies_leave_by_an_export_only_with_who_may_peek(
    people: dict[str, Client], act: str
) -> None:
    letter = made(DeadLetter, 1)
    chosen = {"action": act, "_selected_action": [letter.pk]}
    path = address(DeadLetter, "changelist")

    found = {who: client.post(path, chosen).status_code for who, client in people.items()}

    assert {who for who, status in found.items() if status == 200} == {
        "operator", "admin", "limited"
    }  # fmt: skip
    assert {who for who, status in found.items() if status == 403} == set(PEOPLE) - {
        "operator", "admin", "limited"
    }  # fmt: skip


# --- ways around ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("app", "model", "field", "least"),
    [
        ("access", "apitoken", "user", ALL), ("access", "grant", "user", ALL),
        ("alerts", "delivery", "channel", ALL), ("deadletters", "deadletter", "job", PEEKS),
    ],
)  # fmt: skip
def test_looking_something_up_for_a_form_tells_nobody_more(
    people: dict[str, Client], app: str, model: str, field: str, least: str
) -> None:
    query = {"app_label": app, "model_name": model, "field_name": field, "term": ""}

    found = {
        who: client.get("/admin/autocomplete/", query).status_code for who, client in people.items()
    }

    passing = {who for who in PEOPLE if LEVELS[who] in ((ALL,) if least == ALL else (PEEKS, ALL))}
    assert {who for who, status in found.items() if status == 200} <= passing
    assert all(found[who] == 403 for who in set(PEOPLE) - passing), found


def test_a_popup_is_as_closed_as_its_page(people: dict[str, Client]) -> None:
    row = made(Topic, 1)
    for who in ("viewer", "operator", "nobody"):
        for path in (address(User, "add"), address(User, "changelist"),
                     address(Topic, "delete", row.pk)):  # fmt: skip
            popped = people[who].get(path, {"_popup": "1", "_to_field": "id"}).status_code
            assert popped == people[who].get(path).status_code == 403, (who, path)


def test_a_row_is_changed_by_who_may_change_that_one(people: dict[str, Client]) -> None:
    one, other = made(Topic, 1), made(Topic, 2)
    form = {"type": "MIXED", "queue_count": 4, "perm": 6}
    saves = {
        who: [
            b'name="_save"' in people[who].get(address(Topic, "change", row.pk)).content
            for row in (one, other)
        ]
        for who in ("viewer", "operator", "limited", "admin")
    }

    answer = people["limited"].post(address(Topic, "change", one.pk), form)

    assert saves == {"viewer": [False, False], "operator": [True, True],
                     "limited": [False, True], "admin": [True, True]}  # fmt: skip
    assert answer.status_code == 403
    assert AuditEntry.objects.filter(act="access.refused", by="limited").count() == 1


def test_a_new_name_is_asked_about_when_it_is_known(
    people: dict[str, Client], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        grant("operator", kind="group", match="literal", resource="covert", actions=["create"],
              effect="deny")  # fmt: skip
    form = {"name": "covert", "enabled": "on", "inner": "AVERAGELY", "consume_from": "FIRST",
            "retry_policy": "LEVELS", "lite_model": "SHARED"}  # fmt: skip
    opened = people["operator"].get(address(ConsumerGroup, "add"))
    values = {**form, **{
        field.html_name: field.value()
        for field in opened.context["adminform"].form
        if field.value() is not None and field.html_name not in ("name",)
    }, "consume_from_at_0": "", "consume_from_at_1": ""}  # fmt: skip
    values = {name: value for name, value in values.items() if not isinstance(value, bool) or value}

    answer = people["operator"].post(address(ConsumerGroup, "add"), values)

    assert answer.status_code == 403, answer.content.decode()
    assert not ConsumerGroup.objects.exists()
    assert AuditEntry.objects.filter(act="access.refused", by="operator").count() == 1


@pytest.mark.parametrize("who", ["viewer", "operator", "admin"])
def test_ones_password_is_changed_where_other_sessions_end(
    who: str, people: dict[str, Client]
) -> None:
    answer = people[who].get("/admin/password_change/")

    assert (answer.status_code, answer["Location"]) == (302, "/account")
    assert people[who].post("/admin/password_change/", {"old_password": "x"}).status_code == 403
    assert people[who].post("/admin/logout/").status_code == 303


def test_a_right_that_is_taken_closes_the_admin_at_once(
    people: dict[str, Client], django_capture_on_commit_callbacks: Any
) -> None:
    assert people["operator"].get("/admin/").status_code == 200

    with django_capture_on_commit_callbacks(execute=True):
        grant("operator", kind="topic", match="prefix", resource="pay", effect="deny",
              actions=["list"])  # fmt: skip

    assert people["operator"].get("/admin/").status_code == 403
    assert people["operator"].get("/admin/topics/topic/").status_code == 403


def test_a_role_from_somewhere_else_is_not_let_in(
    people: dict[str, Client], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        grant("operator", kind="cluster", match="any", effect="deny", actions=["get"],
              sources=["203.0.113.0/24"])  # fmt: skip

    # Where a grant depends on the address, nobody is taken to see everything.
    assert people["operator"].get("/admin/").status_code == 403


def test_where_access_is_off_djangos_permissions_decide(client: Client, engine: FakeEngine) -> None:
    from django.contrib.auth.models import Permission

    looker = User.objects.create_user("looker", is_staff=True)
    looker.user_permissions.set(Permission.objects.filter(codename__in=["view_queuelock"]))
    client.force_login(looker)
    lock = made(QueueLock, 1)

    page = client.get(address(QueueLock, "changelist"))

    assert "your account does not have this right" in page.content.decode()
    chosen = {"action": "release", "_selected_action": [lock.pk]}
    assert client.post(address(QueueLock, "changelist"), chosen).status_code == 403
    assert client.get(address(Topic, "changelist")).status_code == 403
    assert client.get(address(QueueLock, "history", lock.pk)).status_code == 200
    User.objects.update(is_staff=False)
    assert client.get("/admin/").status_code == 302
