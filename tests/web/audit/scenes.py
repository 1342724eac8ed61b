"""Scenes of acts on queues, alerts and access: what there is before a route is asked, and how."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyotp
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.test import Client

from apps.access import accounts, factors, policy, tokens
from apps.access.models import AccountSession, SecondFactor
from apps.alerts import services as alerting
from apps.alerts.models import Alert, AlertRule
from apps.alerts.services import SilenceTerms
from apps.core.moments import moment
from apps.engine.clock import SystemClock
from apps.groups import tokens as previews
from apps.groups.targets import PlannedQueue
from apps.topics import services as topics
from tests.web.alerts.rows import HOUR_MS, channel, rule
from tests.web.fake_engine import FakeEngine
from tests.web.group_values import lock

Ask = Callable[[Client, FakeEngine], Any]


@dataclass(frozen=True)
class Scene:
    """What there is before a route is asked, and how it is asked."""

    act: str
    ask: Ask


def api(method: str, path: str, body: object = None) -> Callable[[Client], Any]:
    return lambda client: client.generic(
        method, f"/api/v1{path}", json.dumps(body or {}), content_type="application/json"
    )


# --- queues and offsets --------------------------------------------------------------------------

_QUEUE = "/groups/g/queues/orders/0"
_LOCK = "/locks/g~orders~0"
_CARE = {"expected_offset": "0", "reason": "poison"}


def care(act: str, body: Mapping[str, object]) -> tuple[Scene, Scene]:
    """Return the scenes of an act by the API and by the page."""
    return (
        Scene(f"queue.{act}", lambda c, _: api("POST", f"{_QUEUE}:{act}", body)(c)),
        Scene(f"queue.{act}", lambda c, _: c.post(f"{_LOCK}/{act}", _CARE)),
    )


def release(client: Client, engine: FakeEngine) -> Any:
    engine.locks = [lock("g", "orders", 0, "c")]
    return client.post(f"{_LOCK}/release", {"reason": "stuck", "expected_owner": "c"})


def previewed(engine: FakeEngine) -> str:
    topics.create_or_change_topic(name="orders")
    engine.lengths = {("orders", 0): 10}
    engine.at = {("g", "orders", 0): 5}
    queue = PlannedQueue(topic="orders", queue=0, current=5, target=2)
    return previews.written(
        previews.Promise(group="g", reset_id="r1", target="offset 2", moved_max=0, queues=[queue])
    )


def apply(client: Client, engine: FakeEngine) -> Any:
    body = {"token": previewed(engine), "reason": "again"}
    return api("POST", "/groups/g/offsets:apply", body)(client)


def undo(client: Client, engine: FakeEngine) -> Any:
    number = apply(client, engine).json()["undo_id"]
    return api("POST", "/groups/g/offsets:undo", {"undo_id": number, "reason": "no"})(client)


def press_apply(client: Client, engine: FakeEngine) -> Any:
    values = {"token": previewed(engine), "reason": "again"}
    return client.post("/groups/g/offsets/apply", values)


def press_undo(client: Client, engine: FakeEngine) -> Any:
    number = apply(client, engine).json()["undo_id"]
    return client.post("/groups/g/offsets/undo", {"undo_id": number, "reason": "no"})


# --- alerts --------------------------------------------------------------------------------------

RULE: Mapping[str, Any] = {
    "name": "behind", "kind": "lag", "threshold": 100, "pending_s": 60, "severity": "warning",
    "scope": "any", "subject": "",
}  # fmt: skip
CHANNEL: Mapping[str, Any] = {
    "name": "ops", "kind": "webhook", "url": "https://hooks.example.com/s3cr3t",
    "severity_min": "info", "rate_per_min": 30,
}  # fmt: skip


def fired() -> int:
    at = moment(SystemClock().wall_ms())
    return Alert.objects.create(
        rule=AlertRule.objects.first(), rule_name="behind", kind="lag", severity="warning",
        subject="g", state="firing", threshold=1, pending_at=at, fired_at=at,
    ).pk  # fmt: skip


def silenced() -> int:
    now_ms = SystemClock().wall_ms()
    terms = SilenceTerms(starts_ms=now_ms, ends_ms=now_ms + HOUR_MS, reason="we move house")
    return alerting.create_silence(terms=terms, by="ada", now_ms=now_ms).pk


def silence(client: Client, _: FakeEngine) -> Any:
    ends_ms = SystemClock().wall_ms() + HOUR_MS
    body = {"ends_at": moment(ends_ms).isoformat(), "reason": "we move house"}
    return api("POST", "/silences", body)(client)


# --- access --------------------------------------------------------------------------------------

PASSWORD = "s3cr3t-enough-for-us"
GRANT = {"kind": "topic", "match": "literal", "actions": ["pub"]}


def ann() -> str:
    accounts.create_account(name="ann", password=PASSWORD, role=policy.Role.NONE, by="a test")
    return "ann"


def granted() -> int:
    row = accounts.add_grant(
        name=ann(), kind="topic", actions=["pub"], match="literal", resource="orders", by="a test"
    )
    return row.pk


def issued() -> int:
    return tokens.issue_token(name=ann(), label="ci", by="a test").row.pk


def user_of(name: str) -> Any:
    return get_user_model().objects.get(username=name)


def signed_in_at(name: str) -> int:
    now = moment(SystemClock().wall_ms())
    Session.objects.create(
        session_key="elsewhere", session_data="", expire_date=now + timedelta(hours=1)
    )
    return AccountSession.objects.create(
        user=user_of(name), session_key="elsewhere", begun_at=now, seen_at=now
    ).pk


def code_of(name: str, steps: int = 0) -> str:
    totp = pyotp.TOTP(factors._secret_of(SecondFactor.objects.get(user__username=name)))
    return totp.generate_otp(SystemClock().wall_ms() // 30_000 + steps)


def with_factor(name: str) -> str:
    """Have an account sign in with codes; the next one is good."""
    factors.begin(user_of(name))
    factors.confirm(user=user_of(name), code=code_of(name), by="t")
    return name


def shown(name: str) -> dict[str, str]:
    return {"password": "x", "code": code_of(with_factor(name), steps=1)}


def confirm_factor(client: Client, _: FakeEngine) -> Any:
    factors.begin(user_of("root"))
    return client.post("/account/second-factor/confirm", {"code": code_of("root")})


def sign_in_with_code(client: Client, _: FakeEngine) -> Any:
    code = code_of(with_factor("root"), steps=1)
    client.post("/sign-in", {"name": "root", "password": "x"})
    return client.post("/sign-in/code", {"code": code})


def sign_in(client: Client, _: FakeEngine) -> Any:
    client.logout()
    return client.post("/sign-in", {"name": "root", "password": "x"})


_ACCOUNT = "POST access/accounts/<path:name>"
_API_QUEUE = "POST api/v1/groups/<str:group>/queues/<str:topic>/<int:queue>"
_SUSPEND, _PRESS_SUSPEND = care("suspend", {"reason": "poison"})
_RESUME, _PRESS_RESUME = care("resume", {"reason": "poison"})
_SKIP, _PRESS_SKIP = care("skip", _CARE)
_PARK, _PRESS_PARK = care("park", _CARE)

SCENES: Mapping[str, Scene] = {
    f"{_API_QUEUE}:suspend": _SUSPEND,
    f"{_API_QUEUE}:resume": _RESUME,
    f"{_API_QUEUE}:skip": _SKIP,
    f"{_API_QUEUE}:park": _PARK,
    "POST locks/<str:lock>/suspend": _PRESS_SUSPEND,
    "POST locks/<str:lock>/resume": _PRESS_RESUME,
    "POST locks/<str:lock>/skip": _PRESS_SKIP,
    "POST locks/<str:lock>/park": _PRESS_PARK,
    "POST locks/<str:lock>/release": Scene("lock.release", release),
    "POST api/v1/groups/<str:group>/offsets:apply": Scene("offsets.apply", apply),
    "POST api/v1/groups/<str:group>/offsets:undo": Scene("offsets.undo", undo),
    "POST groups/<path:name>/offsets/apply": Scene("offsets.apply", press_apply),
    "POST groups/<path:name>/offsets/undo": Scene("offsets.undo", press_undo),
    "POST api/v1/alerts/<str:alert>:acknowledge": Scene(
        "alert.acknowledge",
        lambda c, _: api("POST", f"/alerts/{fired()}:acknowledge", {"note": "mine"})(c),
    ),
    "POST alerts/<int:number>/acknowledge": Scene(
        "alert.acknowledge", lambda c, _: c.post(f"/alerts/{fired()}/acknowledge")
    ),
    "POST api/v1/alert-rules": Scene(
        "alert_rule.create", lambda c, _: api("POST", "/alert-rules", RULE)(c)
    ),
    "PUT api/v1/alert-rules/<str:rule>": Scene(
        "alert_rule.change",
        lambda c, _: api("PUT", f"/alert-rules/{rule().pk}", {**RULE, "version": 1})(c),
    ),
    "DELETE api/v1/alert-rules/<str:rule>": Scene(
        "alert_rule.delete", lambda c, _: c.delete(f"/api/v1/alert-rules/{rule().pk}")
    ),
    "POST alerts/rules/create": Scene(
        "alert_rule.create", lambda c, _: c.post("/alerts/rules/create", RULE)
    ),
    "POST alerts/rules/<int:number>/change": Scene(
        "alert_rule.change",
        lambda c, _: c.post(f"/alerts/rules/{rule().pk}/change", {**RULE, "version": 1}),
    ),
    "POST alerts/rules/<int:number>/delete": Scene(
        "alert_rule.delete", lambda c, _: c.post(f"/alerts/rules/{rule().pk}/delete")
    ),
    "POST api/v1/silences": Scene("silence.create", silence),
    "POST api/v1/silences/<str:silence>:end": Scene(
        "silence.end", lambda c, _: api("POST", f"/silences/{silenced()}:end")(c)
    ),
    "POST alerts/silences/create": Scene(
        "silence.create",
        lambda c, _: c.post(
            "/alerts/silences/create", {"scope": "any", "minutes": "60", "reason": "we move"}
        ),
    ),
    "POST alerts/silences/<int:number>/end": Scene(
        "silence.end", lambda c, _: c.post(f"/alerts/silences/{silenced()}/end")
    ),
    "POST api/v1/alert-channels": Scene(
        "alert_channel.create", lambda c, _: api("POST", "/alert-channels", CHANNEL)(c)
    ),
    "PUT api/v1/alert-channels/<str:channel>": Scene(
        "alert_channel.change",
        lambda c, _: api("PUT", f"/alert-channels/{channel().pk}", {**CHANNEL, "version": 1})(c),
    ),
    "DELETE api/v1/alert-channels/<str:channel>": Scene(
        "alert_channel.delete", lambda c, _: c.delete(f"/api/v1/alert-channels/{channel().pk}")
    ),
    "POST api/v1/alert-channels/<str:channel>:test": Scene(
        "alert_channel.test", lambda c, _: api("POST", f"/alert-channels/{channel().pk}:test")(c)
    ),
    "POST alerts/channels/create": Scene(
        "alert_channel.create", lambda c, _: c.post("/alerts/channels/create", CHANNEL)
    ),
    "POST alerts/channels/<int:number>/change": Scene(
        "alert_channel.change",
        lambda c, _: c.post(f"/alerts/channels/{channel().pk}/change", {**CHANNEL, "version": 1}),
    ),
    "POST alerts/channels/<int:number>/delete": Scene(
        "alert_channel.delete", lambda c, _: c.post(f"/alerts/channels/{channel().pk}/delete")
    ),
    "POST alerts/channels/<int:number>/test": Scene(
        "alert_channel.test", lambda c, _: c.post(f"/alerts/channels/{channel().pk}/test")
    ),
    "POST api/v1/accounts": Scene(
        "account.create",
        lambda c, _: api("POST", "/accounts", {"account": "ann", "password": PASSWORD})(c),
    ),
    "PUT api/v1/accounts/<str:account>": Scene(
        "account.change", lambda c, _: api("PUT", f"/accounts/{ann()}", {"role": "viewer"})(c)
    ),
    "PUT api/v1/accounts/<str:account> again": Scene(
        "account.password",
        lambda c, _: api("PUT", f"/accounts/{ann()}", {"password": f"{PASSWORD}-2"})(c),
    ),
    "DELETE api/v1/accounts/<str:account>": Scene(
        "account.delete", lambda c, _: c.delete(f"/api/v1/accounts/{ann()}")
    ),
    "POST api/v1/grants": Scene(
        "grant.add",
        lambda c, _: api("POST", "/grants", {**GRANT, "account": ann(), "name": "orders"})(c),
    ),
    "DELETE api/v1/grants/<str:grant>": Scene(
        "grant.remove", lambda c, _: c.delete(f"/api/v1/grants/{granted()}")
    ),
    "POST api/v1/tokens": Scene(
        "token.issue", lambda c, _: api("POST", "/tokens", {"account": ann(), "label": "ci"})(c)
    ),
    "DELETE api/v1/tokens/<str:token>": Scene(
        "token.revoke", lambda c, _: c.delete(f"/api/v1/tokens/{issued()}")
    ),
    "POST access/accounts": Scene(
        "account.create",
        lambda c, _: c.post(
            "/access/accounts", {"name": "ann", "password": PASSWORD, "role": "none"}
        ),
    ),
    f"{_ACCOUNT}/change": Scene(
        "account.change",
        lambda c, _: c.post(f"/access/accounts/{ann()}/change", {"role": "viewer"}),
    ),
    f"{_ACCOUNT}/password": Scene(
        "account.password",
        lambda c, _: c.post(f"/access/accounts/{ann()}/password", {"password": f"{PASSWORD}-2"}),
    ),
    f"{_ACCOUNT}/delete": Scene(
        "account.delete", lambda c, _: c.post(f"/access/accounts/{ann()}/delete", {"typed": "ann"})
    ),
    f"{_ACCOUNT}/grants": Scene(
        "grant.add",
        lambda c, _: c.post(
            f"/access/accounts/{ann()}/grants", {**GRANT, "resource": "orders", "effect": "allow"}
        ),
    ),
    f"{_ACCOUNT}/tokens": Scene(
        "token.issue", lambda c, _: c.post(f"/access/accounts/{ann()}/tokens", {"label": "ci"})
    ),
    "POST access/grants/<int:number>/remove": Scene(
        "grant.remove", lambda c, _: c.post(f"/access/grants/{granted()}/remove")
    ),
    "POST access/tokens/<int:number>/revoke": Scene(
        "token.revoke", lambda c, _: c.post(f"/access/tokens/{issued()}/revoke")
    ),
    "POST sign-in": Scene("session.sign_in", sign_in),
    "POST sign-in/code": Scene("session.sign_in", sign_in_with_code),
    "POST account/sessions/<int:number>/end": Scene(
        "session.end", lambda c, _: c.post(f"/account/sessions/{signed_in_at('root')}/end")
    ),
    "POST account/sessions/end-others": Scene(
        "session.end_all", lambda c, _: c.post("/account/sessions/end-others")
    ),
    "POST account/password": Scene(
        "account.password",
        lambda c, _: c.post("/account/password", {"password": "x", "new_password": PASSWORD}),
    ),
    "POST account/second-factor/confirm": Scene("second_factor.on", confirm_factor),
    "POST account/second-factor/codes": Scene(
        "second_factor.codes", lambda c, _: c.post("/account/second-factor/codes", shown("root"))
    ),
    "POST account/second-factor/off": Scene(
        "second_factor.off", lambda c, _: c.post("/account/second-factor/off", shown("root"))
    ),
    f"{_ACCOUNT}/end-sessions": Scene(
        "session.end_all", lambda c, _: c.post(f"/access/accounts/{ann()}/end-sessions")
    ),
    f"{_ACCOUNT}/second-factor-off": Scene(
        "second_factor.off",
        lambda c, _: c.post(f"/access/accounts/{with_factor(ann())}/second-factor-off"),
    ),
    "POST api/v1/accounts/<str:account>/sessions:end": Scene(
        "session.end_all", lambda c, _: api("POST", f"/accounts/{ann()}/sessions:end")(c)
    ),
    "POST api/v1/accounts/<str:account>/second-factor:off": Scene(
        "second_factor.off",
        lambda c, _: api("POST", f"/accounts/{with_factor(ann())}/second-factor:off")(c),
    ),
}
