"""Every route that changes something leaves an entry, or is named here with the reason why not.

A route is taken out of Django's table of addresses, the data plane's and the admin's: one that is
added and not named here fails.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from django.contrib import admin as admins
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.views.generic import RedirectView

from apps.access.models import SecondFactor
from apps.audit.acts import ACTS
from apps.audit.admin import AuditedAdmin
from apps.audit.models import AuditEntry
from apps.bridge import engine as bridge
from apps.console.board import board
from apps.console.feed import Feed
from apps.core.admin import ReadOnlyAdmin
from apps.deadletters.models import DeadLetter, ResendJob, State
from apps.doors.http.routing import ROWS
from apps.groups.admin import ConsumerGroupAdmin
from apps.groups.models import QueueLock
from apps.pipelines.models import PipelineRun, PipelineStream
from apps.topics import services as topics
from apps.topics.admin import TopicAdmin
from tests.web.audit import scenes
from tests.web.audit.scenes import Scene, api
from tests.web.console.fakes import FakeEngine as ConsoleEngine
from tests.web.fake_care import delayed_message, half, lost
from tests.web.fake_engine import FakeEngine
from tests.web.group_values import NOW_MS, lock
from tests.web.pipelines.rows import run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("posted")]

WINDOW = {"job": "loss", "from": "2025-01-01T00:00:00Z", "to": "2025-01-01T01:00:00Z"}
API, CONSOLE = "api/v1/", ""


@pytest.fixture
def posted(feed: Feed) -> Iterator[None]:
    """Post a picture, without which pages say that no engine is open."""
    board.put(feed.sample(ConsoleEngine().api))
    yield
    board.clear()


@pytest.fixture
def root() -> Client:
    """Return a browser in which an administrator has signed in."""
    browser = Client(HTTP_USER_AGENT="a browser", REMOTE_ADDR="192.0.2.7")
    browser.force_login(get_user_model().objects.create_superuser("root", password="x"))
    return browser


def letter(**said: Any) -> DeadLetter:
    """Make a letter that waits."""
    values: dict[str, Any] = {
        "group": "g", "queue_offset": 0, "store_id": "s", "origin_topic": "orders",
        "message_id": "ID1", "size_bytes": 10, "attempts": 1, "dead_at": "2025-11-13T02:13:20Z",
    }  # fmt: skip
    return DeadLetter.objects.create(**{**values, **said})


def job() -> ResendJob:
    """Make a job that waits."""
    return ResendJob.objects.create(
        group="g", criteria={}, created_by="ann", created_at="2025-11-13T02:13:20Z"
    )


def handle() -> str:
    """Return a recall handle of a message that waits."""
    text = f"v1 orders broker {NOW_MS} id-1 7 1 00c0ffee"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def put_topic(client: Client, _: FakeEngine) -> Any:
    return api("PUT", "/topics/orders", {"queue_count": 2})(client)


def change_topic(client: Client, _: FakeEngine) -> Any:
    topics.create_or_change_topic(name="orders")
    return api("PUT", "/topics/orders", {"retention_ms": 86_400_000})(client)


def delete_topic(client: Client, _: FakeEngine) -> Any:
    topics.create_or_change_topic(name="orders")
    return api("DELETE", "/topics/orders")(client)


def put_group(client: Client, _: FakeEngine) -> Any:
    return api("PUT", "/groups/g", {"ordered": True})(client)


def change_group(client: Client, engine: FakeEngine) -> Any:
    put_group(client, engine)
    return api("PUT", "/groups/g", {"retry_max": 3})(client)


def release_lock(client: Client, engine: FakeEngine) -> Any:
    engine.locks = [lock("g", "orders", 0, "c")]
    return api("POST", "/locks/g~orders~0:release", {"reason": "stuck"})(client)


def check_transaction(client: Client, engine: FakeEngine) -> Any:
    engine.undecided = [half(5)]
    return api("POST", "/transactions/5.1-0badcafe:check-now")(client)


def send_given_up(client: Client, engine: FakeEngine) -> Any:
    engine.lost = [lost(3)]
    body = {"transaction_id": lost(3).transaction_id, "reason": "paid"}
    return api("POST", "/transactions/given-up/3:send", body)(client)


def resend_letters(client: Client, _: FakeEngine) -> Any:
    letter()
    return api("POST", "/groups/g/dead-letters:resend", {"all": True})(client)


def discard_letters(client: Client, _: FakeEngine) -> Any:
    letter()
    body = {"all": True, "reason": "nobody wants them"}
    return api("POST", "/groups/g/dead-letters:discard", body)(client)


def cancel_job(client: Client, _: FakeEngine) -> Any:
    return api("POST", f"/jobs/{job().pk}:cancel")(client)


def ask_for_run(client: Client, _: FakeEngine) -> Any:
    return api("POST", "/pipelines/runs", WINDOW)(client)


def cancel_run(client: Client, _: FakeEngine) -> Any:
    return api("POST", f"/pipelines/runs/{run('loss', state='queued').pk}:cancel")(client)


def rerun(client: Client, _: FakeEngine) -> Any:
    return api("POST", f"/pipelines/runs/{run('loss', hours_ago=400).pk}:rerun")(client)


def export_audit(client: Client, _: FakeEngine) -> Any:
    return client.get("/api/v1/audit:export", {"format": "csv", "by": "ann"})


def wait(engine: FakeEngine) -> str:
    engine.waiting = [delayed_message(1, handle=handle())]
    return handle()


def press(path: str, **values: object) -> Callable[[Client, FakeEngine], Any]:
    return lambda client, _: client.post(path, values)


def press_transaction(path: str, **values: object) -> Callable[[Client, FakeEngine], Any]:
    def ask(client: Client, engine: FakeEngine) -> Any:
        engine.undecided, engine.lost = [half(5)], [lost(3)]
        return client.post(path, values)

    return ask


def press_letters(path: str, **values: object) -> Callable[[Client, FakeEngine], Any]:
    def ask(client: Client, _: FakeEngine) -> Any:
        return client.post(path, {"id": letter().pk, **values})

    return ask


def press_settings(client: Client, _: FakeEngine) -> Any:
    topics.create_or_change_topic(name="orders")
    page = client.get("/topics/orders/settings")
    values = {"type": "MIXED", "queue_count": "8", "perm": "6"}
    values["version"] = page.context["version"]
    return client.post("/topics/orders/settings", values)


def press_delete(client: Client, _: FakeEngine) -> Any:
    topics.create_or_change_topic(name="orders")
    return client.post("/topics/orders/delete", {"typed": "orders", "reason": "over"})


HALF = {"transaction_id": "5.1-0badcafe"}

# Routes as Django's table has them, with what is done there.
SCENES: Mapping[str, Scene] = {
    "PUT api/v1/topics/<str:topic>": Scene("topic.create", put_topic),
    "PUT api/v1/topics/<str:topic> again": Scene("topic.change", change_topic),
    "DELETE api/v1/topics/<str:topic>": Scene("topic.delete", delete_topic),
    "PUT api/v1/groups/<str:group>": Scene("group.create", put_group),
    "PUT api/v1/groups/<str:group> again": Scene("group.change", change_group),
    "POST api/v1/locks/<str:lock>:release": Scene("lock.release", release_lock),
    "POST api/v1/transactions/<str:transaction_id>:check-now": Scene(
        "transaction.check", check_transaction
    ),
    "POST api/v1/transactions/given-up/<str:offset>:send": Scene(
        "transaction.send_given_up", send_given_up
    ),
    "POST api/v1/groups/<str:group>/dead-letters:resend": Scene(
        "deadletters.resend", resend_letters
    ),
    "POST api/v1/groups/<str:group>/dead-letters:discard": Scene(
        "deadletters.discard", discard_letters
    ),
    "POST api/v1/jobs/<str:job>:cancel": Scene("job.cancel", cancel_job),
    "POST api/v1/pipelines/runs": Scene("pipeline.ask", ask_for_run),
    "POST api/v1/pipelines/runs/<str:run>:cancel": Scene("pipeline.cancel", cancel_run),
    "POST api/v1/pipelines/runs/<str:run>:rerun": Scene("pipeline.rerun", rerun),
    "POST delays/cancel": Scene(
        "delayed.cancel", lambda c, e: c.post("/delays/cancel", {"handle": wait(e)})
    ),
    "POST delays/deliver-now": Scene(
        "delayed.deliver_now", lambda c, e: c.post("/delays/deliver-now", {"handle": wait(e)})
    ),
    "POST transactions/given-up/<int:offset>/send": Scene(
        "transaction.send_given_up",
        press_transaction(
            "/transactions/given-up/3/send",
            typed="send",
            reason="paid",
            transaction_id=lost(3).transaction_id,
        ),
    ),
    "POST transactions/check": Scene(
        "transaction.check", press_transaction("/transactions/check", **HALF)
    ),
    "POST transactions/<int:half_offset>/decide": Scene(
        "transaction.commit",
        press_transaction("/transactions/5/decide", outcome="committed", typed="commit", **HALF),
    ),
    "POST transactions/<int:half_offset>/decide again": Scene(
        "transaction.roll_back",
        press_transaction(
            "/transactions/5/decide", outcome="rolled_back", typed="roll back", **HALF
        ),
    ),
    "POST dead-letters/<str:name>/send": Scene(
        "deadletters.resend", press_letters("/dead-letters/g/send", where="group")
    ),
    "POST dead-letters/<str:name>/discard": Scene(
        "deadletters.discard",
        press_letters("/dead-letters/g/discard", **{"discard-reason": "nobody wants it"}),
    ),
    "POST jobs/<int:number>/cancel": Scene(
        "job.cancel", lambda c, _: c.post(f"/jobs/{job().pk}/cancel")
    ),
    "POST pipelines/runs/ask": Scene("pipeline.ask", press("/pipelines/runs/ask", **WINDOW)),
    "POST pipelines/runs/<int:number>/cancel": Scene(
        "pipeline.cancel",
        lambda c, _: c.post(f"/pipelines/runs/{run('loss', state='queued').pk}/cancel"),
    ),
    "POST pipelines/runs/<int:number>/rerun": Scene(
        "pipeline.rerun",
        lambda c, _: c.post(f"/pipelines/runs/{run('loss', hours_ago=400).pk}/rerun"),
    ),
    "GET api/v1/audit:export": Scene("audit.export", export_audit),
    "POST topics/new": Scene(
        "topic.create",
        press(
            "/topics/new", name="orders", type="MIXED", queue_count="4", perm="6", cleanup="delete"
        ),
    ),
    "POST topics/<str:name>/settings": Scene("topic.change", press_settings),
    "POST topics/<str:name>/delete": Scene("topic.delete", press_delete),
    **scenes.SCENES,
}

# Routes that take something and administer nothing, or that are seen elsewhere.
OTHERS = {
    "POST account/second-factor/begin": "nothing depends on a secret before it is confirmed",
    "POST preferences": "a cookie of who asks",
    "POST sign-out": "ends the session of who asks, and nothing else",
    "POST api/v1/groups/<str:group>/offsets:preview": "shows what a reset would do",
    "POST topics/<str:name>/produce": "tests/web/messages/test_produce.py: needs a log",
}

# Acts that no route of this process leads to: the clockwork, commands and refusals of doors.
ELSEWHERE = {
    "audit.cut": "tests/web/audit/test_cutting.py: the clockwork",
    "topic.expire": "tests/web/audit/test_elsewhere.py: the clockwork",
    "pipeline.backfill": "tests/web/audit/test_elsewhere.py: a command",
    "pipeline.want_stream": "the admin, below",
    "admin.create": "the admin, below",
    "admin.change": "the admin, below",
    "admin.delete": "the admin, below",
    "access.refused": "tests/web/audit/test_refusals.py: doors that refuse",
    "messages.produce": "tests/web/messages/test_produce.py: needs a log",
    "transaction.begin": "tests/web/messages/test_produce.py: needs a log",
}

# What programs do with messages and with themselves is no administration: it is in the log, in the
# trace and in the figures, and there is too much of it for a chain with one writer.
OF_PROGRAMS = "a program's own work with messages"
DATA_PLANE: Mapping[str, str] = {
    f"{method} {row.path}": (
        "a producer takes its own delay back; operators have /delays/…, which is recorded"
        if "/delayed/" in row.path
        else OF_PROGRAMS
    )
    for row in ROWS
    for method in row.verbs
    if method not in ("GET", "HEAD")
}

# Rows that the admin may change, and what records it.
ADMINS: Mapping[str, type[Any]] = {
    "topic": TopicAdmin,
    "consumergroup": ConsumerGroupAdmin,
    "user": AuditedAdmin,
    "grant": AuditedAdmin,
}
ROLE = {
    "access_role-TOTAL_FORMS": "1", "access_role-INITIAL_FORMS": "0", "access_role-0-role": "none",
}  # fmt: skip
# Actions of rows that are only looked at; each is one call of a recorded service.
ADMIN_ACTIONS = {
    "deadletter": {"resend", "discard", "export_csv", "export_json"},
    "resendjob": {"cancel"},
    "pipelinerun": {"cancel", "rerun"},
    "pipelinestream": {"want", "unwant"},
    "queuelock": {"release"},
    # It leads to the page of resets, and does nothing by itself.
    "consumeroffset": {"reset"},
    "alert": {"acknowledge"},
    "apitoken": {"revoke"},
    "accountsession": {"end"},
    "secondfactor": {"turn_off"},
}


def patterns(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every address of Django's with its view, but those of the admin."""
    for found in resolver.url_patterns:
        path = f"{prefix}{found.pattern}"
        if path.startswith("admin/"):
            continue
        if isinstance(found, URLResolver):
            yield from patterns(found, path)
        elif isinstance(found, URLPattern):
            yield path, found.callback


def takes_post(view: Any) -> bool:
    """Say whether a page takes something, by what it says of itself or what is wrapped around."""
    if getattr(view, "is_action", False):
        return True
    while view is not None:
        code = getattr(view, "__code__", None)
        if code is not None and "request_method_list" in code.co_freevars:
            found = view.__closure__[code.co_freevars.index("request_method_list")]
            return "POST" in found.cell_contents
        view = getattr(view, "__wrapped__", None)
    return False


def changing_routes() -> set[str]:
    """Return every route of Django's that takes another method than those that only look."""
    routes = set()
    for path, view in patterns(get_resolver()):
        kind = getattr(view, "view_class", None) or getattr(view, "cls", None)
        if kind is RedirectView:
            continue
        if kind is not None:
            methods = {
                method.upper()
                for method in ("post", "put", "patch", "delete")
                if callable(getattr(kind, method, None))
            }
        else:
            methods = {"POST"} if takes_post(view) else set()
        routes |= {f"{method} {path}" for method in methods}
    return routes


def test_every_route_that_changes_something_is_in_the_table() -> None:
    told = {name.removesuffix(" again") for name in SCENES if not name.startswith("GET ")}

    assert changing_routes() == told | OTHERS.keys()
    assert not told & OTHERS.keys()


def test_a_page_that_is_no_action_takes_nothing() -> None:
    """A view that forgot to say what it is would not be among the routes."""
    browser = Client(raise_request_exception=False)
    taken = []
    for path, view in patterns(get_resolver()):
        kind = getattr(view, "view_class", None) or getattr(view, "cls", None)
        if kind is None and not takes_post(view) and not path.startswith("api/"):
            address = path.replace("<int:", "<").split("<")[0]
            if "<" not in path and browser.post(f"/{address}").status_code not in (405, 403):
                taken.append(path)

    assert taken in ([], ["problems/"])


def test_every_act_has_a_scene() -> None:
    assert {scene.act for scene in SCENES.values()} | set(ELSEWHERE) == set(ACTS)


def test_the_data_plane_is_named_with_reasons() -> None:
    assert len(DATA_PLANE) >= 16
    assert all(DATA_PLANE.values())
    assert {name for name, why in DATA_PLANE.items() if why != OF_PROGRAMS} == {
        "DELETE /api/v1/delayed/{recall_handle}",
        "POST /api/v1/delayed/{recall_handle}:deliver-now",
    }


@pytest.mark.parametrize("route", sorted(SCENES))
def test_a_route_leaves_an_entry_of_its_act(root: Client, engine: FakeEngine, route: str) -> None:
    scene = SCENES[route]

    answer = scene.ask(root, engine)

    assert answer.status_code < 400, answer.content
    entry = AuditEntry.objects.filter(by__startswith="root").first() or AuditEntry.objects.first()
    assert entry is not None
    assert (entry.act, entry.result) == (scene.act, "done"), entry.detail
    assert entry.door == ("api" if "api/v1" in route else "console")
    assert (entry.address, entry.agent) == ("192.0.2.7", "a browser")
    assert entry.request_id == answer["X-Request-Id"]
    assert entry.by in ("root", "anonymous at 192.0.2.7")
    assert entry.before is not None or entry.after is not None
    kept = str([entry.name, entry.detail, entry.before, entry.after])
    assert not any(secret in kept for secret in (handle(), scenes.PASSWORD, "s3cr3t"))


def test_the_admin_changes_only_rows_that_are_recorded() -> None:
    changing = {}
    actions: dict[str, set[str]] = {}
    for model, found in admins.site._registry.items():
        name = model._meta.model_name or ""
        if isinstance(found, ReadOnlyAdmin):
            own = set(found.actions)
            if own:
                actions[name] = own
        else:
            changing[name] = found

    assert changing.keys() == ADMINS.keys()
    assert all(isinstance(found, ADMINS[name]) for name, found in changing.items())
    assert actions == ADMIN_ACTIONS


def admin_entry() -> AuditEntry:
    found = AuditEntry.objects.first()
    assert found is not None
    assert (found.by, found.door) == ("root", "admin")
    return found


def test_the_admin_s_changes_of_topics_and_groups_are_recorded(
    root: Client, engine: FakeEngine
) -> None:
    values = {"name": "orders", "type": "MIXED", "queue_count": "4", "perm": "6"}
    root.post("/admin/topics/topic/add/", values)
    made = admin_entry()
    group = {
        "name": "g", "enabled": "on", "inner": "AVG", "consume_from": "last",
        "retry_policy": "levels", "lite_model": "SHARED",
    }  # fmt: skip
    answer = root.post("/admin/groups/consumergroup/add/", group)
    decided = admin_entry()

    assert made.act == "topic.create"
    assert (decided.act, decided.name) == ("group.create", "g"), answer.content[-3000:]


def test_the_admin_s_changes_of_accounts_are_recorded_without_secrets(root: Client) -> None:
    made = {"username": "ann", "password1": "s3cr3t-enough", "password2": "s3cr3t-enough",
            "usable_password": "true", **ROLE}  # fmt: skip
    root.post("/admin/auth/user/add/", made)
    user = User.objects.get(username="ann")
    created = admin_entry()
    values = {"username": "ann", "is_staff": "on", "is_active": "on",
              **ROLE, "access_role-0-user": user.pk, "access_role-0-role": "viewer"}  # fmt: skip
    root.post(f"/admin/auth/user/{user.pk}/change/", values)
    changed = admin_entry()
    word = {"password1": "an0ther-one-x", "password2": "an0ther-one-x"}
    root.post(f"/admin/auth/user/{user.pk}/password/", word)
    renewed = admin_entry()
    grant = scenes.accounts.add_grant(
        name="ann", kind="topic", actions=["pub"], match="literal", resource="orders", by="a test"
    )
    root.post(f"/admin/access/grant/{grant.pk}/delete/", {"post": "yes"})
    deleted = admin_entry()

    assert [one.act for one in (created, changed, renewed, deleted)] == [
        "admin.create", "admin.change", "admin.change", "admin.delete",
    ]  # fmt: skip
    assert (changed.before["is_staff"], changed.after["is_staff"]) == (False, True)
    assert (changed.before["role"], changed.after["role"]) == ("none", "viewer")
    assert "password" in renewed.detail.lower()
    assert deleted.after is None
    kept = str([[one.before, one.after] for one in (created, changed, renewed, deleted)])
    assert "md5$" not in kept
    assert "s3cr3t" not in kept


def test_the_admin_s_actions_are_recorded(root: Client, engine: FakeEngine) -> None:
    engine.locks = [lock("g", "orders", 0, "c")]
    held = QueueLock.objects.create(
        group="g", topic="orders", queue=0, state="held", owner="c", epoch=1,
        acquired_at="2025-11-13T02:13:20Z", expires_at="2025-11-13T02:13:20Z",
        updated_at="2025-11-13T02:13:20Z",
    )  # fmt: skip
    stream = PipelineStream.objects.create(name="ingest", is_wanted=False)
    factor = SecondFactor.objects.get(user__username=scenes.with_factor(scenes.ann()))
    session = scenes.signed_in_at("ann")
    chosen = [
        ("groups/queuelock", "release", held.pk, "lock.release"),
        ("deadletters/deadletter", "discard", letter().pk, "deadletters.discard"),
        ("deadletters/deadletter", "resend", letter(queue_offset=1).pk, "deadletters.resend"),
        ("deadletters/resendjob", "cancel", job().pk, "job.cancel"),
        ("pipelines/pipelinerun", "cancel", run("loss", state="queued").pk, "pipeline.cancel"),
        ("pipelines/pipelinerun", "rerun", run("loss", hours_ago=400).pk, "pipeline.rerun"),
        ("pipelines/pipelinestream", "want", stream.pk, "pipeline.want_stream"),
        ("pipelines/pipelinestream", "unwant", stream.pk, "pipeline.want_stream"),
        ("access/accountsession", "end", session, "session.end"),
        ("access/secondfactor", "turn_off", factor.pk, "second_factor.off"),
    ]

    for path, action, number, act in chosen:
        values = {"action": action, "_selected_action": [number], "apply": "1", "reason": "why",
                  "where": "group"}  # fmt: skip
        answer = root.post(f"/admin/{path}/", values)

        assert answer.status_code in (200, 302), action
        assert admin_entry().act == act
    assert DeadLetter.objects.filter(state=State.DISCARDED).count() == 1
    assert PipelineRun.objects.filter(state="cancelled").count() == 1
    assert bridge.can_call()
