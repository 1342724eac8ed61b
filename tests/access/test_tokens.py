"""Accounts, grants and tokens: what is kept, what is told, and what reaches the doors when."""

import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test import Client
from rest_framework.test import APIClient

from apps.access import accounts, asking, keeping, policy, selectors, snapshot, tokens
from apps.access.gate import Denied
from apps.access.models import ApiToken
from apps.access.policy import Action, Role, digest_of, topic
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.engine.errors import InvalidArgument
from tests.doors.fake_engine import ManualClock

PASSWORD = "Correct horse 1"


@pytest.fixture
def root(closed: None) -> Client:
    """Return a browser that is signed in as one who administers."""
    user = accounts.create_account(name="root", password=PASSWORD, role=Role.ADMIN, by="t")
    accounts.create_account(name="shop", password=None, by="t")
    snapshot.publish()
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


def rows() -> str:
    """Return every row of every table as text."""
    found = []
    with connection.cursor() as cursor:
        for name in connection.introspection.table_names():
            cursor.execute(f'SELECT t::text FROM "{name}" t')
            found += [row[0] for row in cursor.fetchall()]
    return "\n".join(found)


def test_a_token_is_in_one_answer_and_nowhere_else(
    root: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    issued = root.post(
        "/api/v1/tokens", {"account": "shop", "label": "x"}, content_type="application/json"
    )
    secret = issued.json()["secret"]
    page = root.post("/access/accounts/shop/tokens", {"label": "y"})
    shown = page.content.decode().split('<code class="secret">')[1].split("<")[0]
    lists = [root.get("/api/v1/tokens"), root.get("/access"), root.get("/access/accounts/shop/")]
    dump = rows()

    assert len(secret) == len("mqt_") + 43
    assert page.headers["Cache-Control"].count("no-store")
    for text in (secret, shown):
        assert text not in dump
        assert text[12:] not in dump + caplog.text
        assert all(text[12:] not in answer.content.decode() for answer in lists)
        assert digest_of(text.encode()).hex() in dump
    assert ApiToken.objects.count() == 2


def test_a_token_is_a_pair_of_keys_that_is_shown_once_and_kept_nowhere(root: Client) -> None:
    issued = root.post(
        "/api/v1/tokens", {"account": "shop", "label": "x"}, content_type="application/json"
    ).json()
    page = root.post("/access/accounts/shop/tokens", {"label": "y"}).content.decode()
    shown = [part.split("<")[0] for part in page.split('<code class="secret">')[1:]]
    lists = root.get("/api/v1/tokens").content.decode()
    dump = rows()

    assert issued["access_key"] == issued["prefix"] == issued["secret"][:12]
    assert shown[1] == shown[0][:12]
    for secret_key in (issued["secret_key"], shown[2]):
        assert len(secret_key) == len("mqs_") + 43
        assert secret_key not in dump + lists
    assert issued["secret_key"] != shown[2]


def test_who_signs_with_a_tokens_keys_has_its_rights_until_it_is_revoked(
    root: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    accounts.add_grant(
        name="shop", kind="topic", actions=["pub"], match="literal", resource="orders", by="t"
    )
    call_command("token", "create", "shop", "--label", "x", "--key-pair")
    secret, access_key, secret_key = capsys.readouterr().out.split()
    snapshot.publish()
    signed = (access_key, secret_key.__eq__, ("10.0.0.1", 1))

    rights = asking.gate.rights_of_signer(*signed)

    assert rights.caller.digest == digest_of(secret.encode())
    rights.require(topic("orders"), Action.PUB)
    for key, test in ((access_key, "other".__eq__), ("mqt_unknown", secret_key.__eq__)):
        with pytest.raises(Denied):
            asking.gate.rights_of_signer(key, test, None)
    call_command("token", "revoke", access_key)
    snapshot.publish()
    with pytest.raises(Denied):
        asking.gate.rights_of_signer(*signed)


def test_what_commits_reaches_the_doors_of_this_process_at_once(
    root: Client, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        issued = tokens.issue_token(name="shop", label="x", by="t")
    digest = digest_of(issued.secret.encode())
    gate = asking.gate

    assert gate.caller_of(digest, "").label == f"shop (token {issued.row.prefix})"
    assert not gate.may(digest, "", Action.PUB, topic("orders"))
    with django_capture_on_commit_callbacks(execute=True):
        accounts.add_grant(
            name="shop", kind="topic", actions=["pub"], match="prefix", resource="ord", by="t"
        )
    assert gate.may(digest, "", Action.PUB, topic("orders"))
    with django_capture_on_commit_callbacks(execute=True):
        tokens.revoke_token(number=issued.row.pk, by="t")
    assert not gate.may(digest, "", Action.PUB, topic("orders"))


def test_what_another_process_changed_reaches_the_doors_at_the_next_step(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: dict[int, int] = {}
    clock = ManualClock()
    keeper = keeping.Keeper(used, clock=clock)
    keeper.step()
    # Another process publishes to its own doors, not to ours.
    issued = tokens.issue_token(name="shop", label="x", by="t")
    digest = digest_of(issued.secret.encode())
    assert snapshot.current().token(digest, 0) is None  # type: ignore[union-attr]

    keeper.step()
    assert snapshot.current().token(digest, 0) is not None  # type: ignore[union-attr]

    tokens.revoke_token(number=issued.row.pk, by="t")
    keeper.step()
    assert snapshot.current().token(digest, 0) is None  # type: ignore[union-attr]
    assert keeping.STEP_EVERY_S + keeping.LOOK_EVERY_S < 1


def test_a_database_that_is_away_leaves_the_last_book_and_the_clock(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    expires_at = moment(clock.wall_ms() + 5_000)
    issued = tokens.issue_token(name="shop", label="x", expires_at=expires_at, by="t", clock=clock)
    keeper = keeping.Keeper({}, clock=clock)
    keeper.step()
    failed = []

    def away() -> int:
        failed.append(1)
        raise OperationalError("planted")

    monkeypatch.setattr(snapshot, "stored_version", away)
    with pytest.raises(OperationalError):
        keeper.step()

    book = snapshot.current()
    assert book is not None
    assert failed
    digest = digest_of(issued.secret.encode())
    assert book.token(digest, clock.wall_ms()) is not None
    assert book.token(digest, clock.wall_ms() + 5_000) is None


def test_use_is_written_once_a_minute(root: Client) -> None:
    issued = tokens.issue_token(name="shop", label="x", by="t")
    clock = ManualClock()
    used = {issued.row.pk: clock.wall_ms()}
    keeper = keeping.Keeper(used, clock=clock)

    def written() -> object:
        return ApiToken.objects.get(pk=issued.row.pk).last_used_at

    keeper.step()
    assert written() == moment(clock.wall_ms())
    used[issued.row.pk] += 59_000
    keeper.step()
    assert written() == moment(clock.wall_ms())
    used[issued.row.pk] += 1_000
    keeper.step()
    assert written() == moment(clock.wall_ms() + 60_000)


def test_an_older_book_never_replaces_a_newer_one(closed: None) -> None:
    snapshot.install(policy.Book(version=5))
    snapshot.install(policy.Book(version=4))

    book = snapshot.current()
    assert book is not None
    assert book.version == 5


def test_rows_that_make_no_sense_deny(root: Client) -> None:
    row = accounts.add_grant(
        name="shop", kind="topic", actions=["pub"], match="literal", resource="orders", by="t"
    )
    issued = tokens.issue_token(name="shop", label="x", by="t")
    type(row).objects.filter(pk=row.pk).update(actions=["fly"])
    ApiToken.objects.filter(pk=issued.row.pk).update(scopes=[{"kind": "moon"}])

    book = snapshot.build()

    assert book.token(digest_of(issued.secret.encode()), 0) is None
    account = book.accounts[row.user_id]
    assert not policy.decide(account.principal, Action.PUB, topic("orders")).is_allowed


@pytest.mark.parametrize(
    "act",
    [
        lambda: accounts.delete_account(name="root", by="t"),
        lambda: accounts.change_account(name="root", is_active=False, by="t"),
        lambda: accounts.change_account(name="root", role=Role.VIEWER, by="t"),
    ],
)
def test_somebody_who_administers_is_always_left(root: Client, act: Any) -> None:
    with pytest.raises(ProblemError) as refused:
        act()

    assert refused.value.kind.code == "conflict"
    assert selectors.somebody_administers()


@pytest.mark.parametrize(
    "wrong",
    [
        {"label": ""},
        {"label": "x" * 81},
        {"label": "a\nb"},
        {"expires_at": moment(0) + timedelta(days=1)},
        {"scopes": [{"kind": "topic", "actions": ["pub"], "match": "any", "effect": "deny"}]},
        {"scopes": [{"kind": "topic", "actions": ["fly"], "match": "any"}]},
    ],
)
def test_a_token_that_makes_no_sense_is_not_issued(root: Client, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        tokens.issue_token(**{"name": "shop", "label": "x", "by": "t", **wrong})

    assert ApiToken.objects.count() == 0


def test_accounts_grants_and_tokens_by_rest(root: Client) -> None:
    def call(method: str, path: str, body: object = None) -> Any:
        return root.generic(
            method, f"/api/v1{path}", json.dumps(body or {}), content_type="application/json"
        )

    made = call("POST", "/accounts", {"account": "ann", "password": PASSWORD, "role": "viewer"})
    twice = call("POST", "/accounts", {"account": "ann"})
    weak = call("POST", "/accounts", {"account": "bob", "password": "12345"})
    changed = call("PUT", "/accounts/ann", {"role": "operator", "is_active": False})
    granted = call(
        "POST", "/grants",
        {"account": "ann", "kind": "topic", "name": "orders", "actions": ["pub"]},
    )  # fmt: skip
    wrong = call(
        "POST", "/grants", {"account": "ann", "kind": "cluster", "actions": ["get"], "name": "x"}
    )
    listed = root.get("/api/v1/grants", {"account": "ann"}).json()["items"]
    token = call("POST", "/tokens", {"account": "ann", "label": "x", "scopes": [
        {"kind": "topic", "name": "orders", "actions": ["pub"]},
    ]})  # fmt: skip
    revoked = call("DELETE", f"/tokens/{token.json()['token']}")
    number = granted.json()["grant"]
    removed = call("DELETE", f"/grants/{number}")

    assert (made.status_code, made.json()["can_sign_in"]) == (201, True)
    assert (twice.status_code, weak.status_code, wrong.status_code) == (409, 422, 422)
    assert changed.json()["role"] == "operator"
    assert not changed.json()["can_sign_in"]
    assert [one["name"] for one in listed] == ["orders"]
    assert listed[0]["created_by"] == "root"
    assert (token.status_code, revoked.status_code, removed.status_code) == (201, 204, 204)
    after = root.get(f"/api/v1/tokens/{token.json()['token']}").json()
    assert after["revoked_at"] is not None
    assert "secret" not in after
    assert call("DELETE", "/accounts/ann").status_code == 204
    assert root.get("/api/v1/accounts/ann").status_code == 404
    assert root.get("/api/v1/tokens/x").status_code == 404


def test_lists_show_what_their_caller_may_list(
    root: Client, engine: Any, django_capture_on_commit_callbacks: Any
) -> None:
    from apps.topics.services import create_or_change_topic

    for name in ("orders", "pay", "stock"):
        create_or_change_topic(name=name)
    accounts.add_grant(
        name="shop", kind="topic", actions=["pub"], match="literal", resource="pay", by="t"
    )
    with django_capture_on_commit_callbacks(execute=True):
        secret = tokens.issue_token(name="shop", label="x", by="t").secret
    shop = APIClient(headers={"Authorization": f"Bearer {secret}"})

    seen = [item["topic"] for item in shop.get("/api/v1/topics").json()["items"]]
    everything = [item["topic"] for item in root.get("/api/v1/topics").json()["items"]]

    assert seen == ["pay"]
    assert everything == ["orders", "pay", "stock"]
    assert shop.get("/api/v1/groups").json()["items"] == []
    # What one may not know of looks like what is not there.
    assert shop.get("/api/v1/topics/orders").status_code == 404
    assert shop.put("/api/v1/topics/pay", {}, format="json").status_code == 403


def test_a_right_to_create_is_none_to_change(
    root: Client, engine: Any, django_capture_on_commit_callbacks: Any
) -> None:
    accounts.add_grant(name="shop", kind="topic", actions=["create"], match="any", by="t")
    with django_capture_on_commit_callbacks(execute=True):
        secret = tokens.issue_token(name="shop", label="x", by="t").secret
    shop = APIClient(headers={"Authorization": f"Bearer {secret}"})

    first = shop.put("/api/v1/topics/new", {}, format="json")
    second = shop.put("/api/v1/topics/new", {"perm": 4}, format="json")

    assert (first.status_code, second.status_code) == (201, 403)
    assert "no right to update topic 'new'" in second.json()["detail"]


def test_pages_ask_no_more_for_more_accounts(
    root: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        accounts.create_account(name=f"p{number}", password=None, by="t")
        tokens.issue_token(name=f"p{number}", label="x", by="t")
    snapshot.publish()
    root.get("/access")

    for path in ("/access", "/api/v1/accounts", "/api/v1/tokens", "/admin/access/apitoken/"):
        with django_assert_max_num_queries(8):
            assert root.get(path).status_code == 200


def test_commands_do_what_pages_do(
    root: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call_command("account", "create", "till", "--program")
    call_command("account", "grant", "till", "topic", "order*", "pub,sub")
    capsys.readouterr()
    call_command("token", "create", "till", "--label", "x", "--scope", "topic:orders:pub")
    secret = capsys.readouterr().out.strip()
    snapshot.publish()
    digest = digest_of(secret.encode())

    assert asking.gate.may(digest, "", Action.PUB, topic("orders"))
    assert not asking.gate.may(digest, "", Action.SUB, topic("orders"))
    call_command("token", "list")
    assert secret[:12] in (listed := capsys.readouterr().out)
    assert secret not in listed
    call_command("token", "revoke", secret[:12])
    snapshot.publish()
    assert not asking.gate.may(digest, "", Action.PUB, topic("orders"))
    with pytest.raises(CommandError, match="there is no account"):
        call_command("token", "create", "nobody", "--label", "x")
    with pytest.raises(CommandError, match="no scope"):
        call_command("token", "create", "till", "--label", "x", "--scope", "orders")


def test_hostile_text_is_text(root: Client) -> None:
    hostile = '<script>alert("x")</script>'
    tokens.issue_token(name="shop", label=hostile, by=hostile)
    snapshot.publish()

    for path in ("/access", "/access/accounts/shop/", "/admin/access/apitoken/"):
        page = root.get(path).content.decode()
        assert hostile not in page
        assert "&lt;script&gt;" in page
