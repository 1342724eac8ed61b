"""Every address has a row in the table of rights, and every role gets exactly what its row says."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from apps.access import accounts, asking, policy, tokens
from apps.access.policy import ACTIONS_OF, CLUSTER, Action, Kind, Resource, Role, decide
from apps.access.table import Need, Open, Somewhere, Throughout
from apps.doors.http import rights
from apps.doors.http.routing import ROWS, Verb
from mqweb.rights import TABLE
from tests.web.fake_engine import FakeEngine

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
PARTS = {
    "topic": "orders", "group": "billing", "name": "billing", "lock": "billing~orders~0",
    "code": "forbidden", "offset": "1", "number": "1", "half_offset": "1", "letter": "1",
    "job": "1", "run": "1", "file": "1", "table": "x", "stream": "x", "account": "ann",
    "grant": "1", "token": "1", "transaction_id": "x", "queue": "0", "message_id": "x",
    "alert": "1", "rule": "1", "silence": "1", "channel": "1",
}  # fmt: skip


def patterns(resolver: Any = None, start: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every route of the URLconf with its view."""
    for one in (resolver or get_resolver()).url_patterns:
        route = start + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from patterns(one, route)
        else:
            assert isinstance(one, URLPattern)
            yield route, one.callback


def methods_of(view: Any) -> set[str]:
    """Return the methods a view of the API serves; of a page, those its row names."""
    kind = getattr(view, "view_class", None) or getattr(view, "cls", None)
    if kind is None:
        return set()
    return {method for method in METHODS if hasattr(kind, method.lower())}


def address(route: str) -> str:
    """Return an address of a route."""

    def part(found: re.Match[str]) -> str:
        return PARTS[found[1].split(":")[-1]]

    return "/" + re.sub(r"<([^>]+)>", part, route)


OURS = sorted(route for route, _ in patterns() if not route.startswith("admin/"))
ROUTES = [(route, method) for route in OURS for method in TABLE.routes.get(route, {})]


def area_of(route: str) -> str:
    """Return what addresses with the same beginning have in common.

    Each way to look after one's own account is alone: some end the session that asked.
    """
    if route.startswith("account/"):
        return route
    return re.split(r"[/:?]", route.removeprefix("api/v1/"))[0]


# The people are made once for an area: to make them takes longer than to ask about a route.
AREAS = sorted({area_of(route) for route, _ in ROUTES})


def test_every_route_has_a_row() -> None:
    assert len(OURS) > 60
    assert [route for route in OURS if route not in TABLE.routes] == []
    for route, _ in patterns():
        row = TABLE.row(route, "GET")
        is_closed = isinstance(row, Need | Throughout)
        assert not route.startswith("admin/") or is_closed or route == "admin/logout/", route


def test_every_row_has_a_route() -> None:
    assert set(TABLE.routes) - {route for route, _ in patterns()} == set()


def test_views_serve_no_method_without_a_row() -> None:
    wrong = {
        (route, method)
        for route, view in patterns()
        if not route.startswith("admin/")
        for method in methods_of(view)
        if method not in TABLE.routes[route]
    }

    # A redirection takes every method, and does nothing.
    assert {row for row in wrong if row[0] != "pipelines"} == set()


def test_what_is_not_in_the_table_is_closed() -> None:
    assert TABLE.row("api/v1/nothing/of/this", "GET") is None
    assert TABLE.row("locks", "DELETE") is None


def test_every_verb_of_the_data_plane_needs_a_right() -> None:
    verbs = {verb for row in ROWS for verb in row.verbs.values()}

    assert verbs == set(Verb)
    assert set(rights.NEEDS) | rights.OPEN | rights.BY_TOKEN == verbs
    assert not set(rights.NEEDS) & (rights.OPEN | rights.BY_TOKEN)
    for need in rights.NEEDS.values():
        assert need.action in ACTIONS_OF[need.kind]


def test_rows_ask_for_actions_there_are() -> None:
    for route, method in ROUTES:
        row = TABLE.routes[route][method]
        if isinstance(row, Need):
            parts = {name.split(":")[-1]: value for name, value in PARTS.items()}
            kind = row.resource_of(parts).kind
            assert set(row.actions) <= ACTIONS_OF[kind], route
        if isinstance(row, Somewhere):
            assert set(row.actions) <= ACTIONS_OF[row.kind], route


# --- the matrix ----------------------------------------------------------------------------------


@pytest.fixture
def people(
    closed: None, django_capture_on_commit_callbacks: Any
) -> dict[str, tuple[Client, policy.Principal | None]]:
    """Return who asks, by name: a client that is signed in, and what decides about it."""
    with django_capture_on_commit_callbacks(execute=True):
        for role in Role:
            accounts.create_account(name=role.value, password="Correct horse 1", role=role, by="t")
        accounts.add_grant(
            name="none", kind="topic", actions=["get", "pub"], match="literal",
            resource="orders", by="t",
        )  # fmt: skip
    found: dict[str, tuple[Client, policy.Principal | None]] = {
        "anonymous": (Client(raise_request_exception=False), None)
    }
    for role in Role:
        user = get_user_model().objects.get(username=role.value)
        client = Client(raise_request_exception=False)
        client.force_login(user)
        found[role.value] = client, asking.gate.book().accounts[user.pk].principal
    return found


@pytest.mark.parametrize("area", AREAS)
def test_everybody_gets_what_the_row_says(
    area: str, people: dict[str, tuple[Client, policy.Principal | None]], engine: FakeEngine
) -> None:
    for route, method in ROUTES:
        if area_of(route) == area:
            _ask_as_everybody(route, method, people)


def _ask_as_everybody(
    route: str, method: str, people: dict[str, tuple[Client, policy.Principal | None]]
) -> None:
    row = TABLE.routes[route][method]
    where = address(route)
    parts = {name.split(":")[-1]: value for name, value in PARTS.items()}
    if ":name>" in route and route.startswith("topics"):
        parts["name"] = "billing"

    for who, (client, principal) in people.items():
        if route == "sign-out":
            continue  # It would end the session of the others' turn.
        answer = client.generic(method, where, b"{}", content_type="application/json")
        is_in = principal is not None
        if isinstance(row, Open):
            is_allowed = is_in or not row.is_for_accounts
        elif isinstance(row, Somewhere):
            is_allowed = principal is not None and any(
                principal.may_somewhere(action, row.kind).is_allowed for action in row.actions
            )
            status, code = 403, "forbidden"
        else:
            resource = row.resource_of(parts)
            is_allowed = is_in and any(
                decide(principal, action, resource).is_allowed for action in row.actions
            )
            # What one may not know of is answered as what is not there.
            is_hidden = (
                principal is not None
                and resource.kind is not Kind.CLUSTER
                and not principal.knows_of(resource)
                and Action.CREATE not in row.actions
            )
            status, code = (404, "not_found") if is_hidden else (403, "forbidden")
        if is_allowed:
            # 403 may still come of a body: then of the CSRF check, or of what it names.
            assert answer.status_code != 401 or route == "sign-in", (who, where)
            assert "/sign-in?" not in answer.headers.get("Location", ""), (who, where)
        elif route.startswith("api/") and route != "api/docs/":
            assert answer.status_code == (status if is_in else 401), (who, where)
            assert answer.json()["code"] == (code if is_in else "unauthenticated")
            assert is_in or answer.headers["WWW-Authenticate"].startswith("Bearer")
        elif is_in:
            assert answer.status_code == status, (who, where)
        else:
            assert answer.status_code == 302, (who, where)
            assert answer.headers["Location"].startswith("/sign-in?next=")


def test_a_viewer_may_change_nothing(
    people: dict[str, tuple[Client, policy.Principal | None]],
) -> None:
    client, principal = people["viewer"]
    writes = [
        (route, method)
        for route, method in ROUTES
        if method != "GET" and isinstance(TABLE.routes[route][method], Need | Somewhere)
    ]

    assert len(writes) > 30
    for route, method in writes:
        answer = client.generic(method, address(route), b"{}", content_type="application/json")
        assert answer.status_code == 403, route
    assert not any(
        decide(principal, action, Resource(kind, "" if kind is Kind.CLUSTER else "x")).is_allowed
        for kind in Kind
        for action in ACTIONS_OF[kind] - {Action.GET, Action.LIST}
    )


def test_the_admin_is_for_those_who_see_everything(
    people: dict[str, tuple[Client, policy.Principal | None]],
) -> None:
    seen = {who: client.get("/admin/").status_code for who, (client, _) in people.items()}

    assert seen == {"anonymous": 302, "viewer": 200, "operator": 200, "none": 403, "admin": 200}
    for path in ("/admin/auth/user/", "/admin/access/grant/", "/admin/access/apitoken/"):
        found = {who: client.get(path).status_code for who, (client, _) in people.items()}
        assert found == {"anonymous": 302, "viewer": 403, "operator": 403, "none": 403,
                         "admin": 200}  # fmt: skip
    signing_in = people["anonymous"][0].get("/admin/login/?next=/admin/")
    assert signing_in.headers["Location"] == "/sign-in?next=%2Fadmin%2F"


def test_a_token_has_the_rights_of_its_account_and_no_cookie_adds_any(
    people: dict[str, tuple[Client, policy.Principal | None]],
    engine: FakeEngine,
    django_capture_on_commit_callbacks: Any,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        secret = tokens.issue_token(name="viewer", label="x", by="t").secret
    headers = {"Authorization": f"Bearer {secret}"}
    boss, _ = people["admin"]

    assert boss.get("/api/v1/tokens").status_code == 200
    assert boss.get("/api/v1/tokens", headers=headers).status_code == 403
    assert boss.get("/api/v1/clockwork", headers=headers).status_code == 200
    assert boss.get("/api/v1/clockwork", headers={"Authorization": "Bearer x"}).status_code == 401
    assert boss.get("/access", headers=headers).status_code == 302


def test_a_session_writes_only_with_its_csrf_token(
    people: dict[str, tuple[Client, policy.Principal | None]],
) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(get_user_model().objects.get(username="admin"))
    body = {"account": "carl"}

    refused = client.post("/api/v1/accounts", body, content_type="application/json")
    client.get("/access")
    token = client.cookies["mqweb_csrf"].value
    taken = client.post(
        "/api/v1/accounts", body, content_type="application/json", headers={"X-CSRFToken": token}
    )

    assert refused.status_code == 403
    assert "CSRF" in refused.json()["detail"]
    assert taken.status_code == 201


def test_the_cluster_has_no_name() -> None:
    assert str(CLUSTER) == "cluster"
