"""REST of alerts, rules, silences and channels, as a client on the same machine sees it."""

import json
from typing import Any

import pytest
from django.test import Client

from apps.alerts import services
from apps.alerts.models import Alert, AlertRule, Channel, Notification, Silence
from apps.core.moments import moment
from apps.engine.clock import SystemClock
from tests.web.alerts.rows import HOOK, HOUR_MS, Slots, channel, rule, silence
from tests.web.metrics.fakes import START_MS

pytestmark = pytest.mark.django_db

RULE = {"name": "behind", "kind": "lag", "threshold": 100}
CHANNEL = {"name": "ops", "kind": "webhook", "url": HOOK}


@pytest.fixture(autouse=True)
def slots(monkeypatch: pytest.MonkeyPatch) -> Slots:
    """Let the time be that of the slots, and no rule be there."""
    AlertRule.objects.all().delete()
    found = Slots()
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _: found.now_ms)
    return found


def call(method: str, path: str, body: object = None) -> Any:
    client = Client(raise_request_exception=False)
    send = getattr(client, method)
    if body is None:
        return send(f"/api/v1{path}")
    return send(f"/api/v1{path}", data=json.dumps(body), content_type="application/json")


def fire(slots: Slots, *subjects: str) -> list[Alert]:
    rule(pending_s=0)
    services.evaluate(now_ms=slots.sample(**dict.fromkeys(subjects, 100)))
    return list(Alert.objects.order_by("subject"))


def test_alerts_are_listed_the_newest_first_page_by_page(slots: Slots) -> None:
    fire(slots, "a", "b", "c")

    first = call("get", "/alerts?limit=2").json()
    second = call("get", f"/alerts?limit=2&cursor={first['next_cursor']}").json()

    assert [row["subject"] for row in first["items"] + second["items"]] == ["c", "b", "a"]
    assert second["next_cursor"] is None
    row = first["items"][0]
    assert (row["state"], row["value"], row["unit"], row["rule"]) == (
        "firing", 100.0, "messages", "behind",
    )  # fmt: skip
    assert first["looked_at"] == "2027-01-15T08:00:05.000Z"


def test_alerts_are_found_by_state_kind_and_subject(slots: Slots) -> None:
    first, _ = fire(slots, "a", "b")
    services.acknowledge(alert_id=first.pk, by="ada", now_ms=slots.now_ms)

    def found(query: str) -> list[str]:
        return [row["subject"] for row in call("get", f"/alerts?{query}").json()["items"]]

    assert found("state=acknowledged") == ["a"]
    assert found("state=acknowledged&state=firing") == ["b", "a"]
    assert (found("kind=disk"), found("subject=b")) == ([], ["b"])


@pytest.mark.parametrize(
    "query", ["state=burning", "kind=x", "subject=a%00b", "cursor=!", "limit=0"]
)
def test_a_list_of_what_cannot_be_is_refused(query: str) -> None:
    answer = call("get", f"/alerts?{query}")

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_argument")


def test_an_alert_tells_what_became_of_it_and_who_was_told(slots: Slots) -> None:
    channel()
    (alert,) = fire(slots, "a")

    answer = call("post", f"/alerts/{alert.pk}:acknowledge", {"note": "on it"})

    assert answer.status_code == 200
    whole = call("get", f"/alerts/{alert.pk}").json()
    assert whole["acknowledged_by"] == "anonymous at 127.0.0.1"
    assert [(row["state"], row["note"]) for row in whole["events"]] == [
        ("firing", ""),
        ("acknowledged", "on it"),
    ]
    assert [(row["channel"], row["event"], row["state"]) for row in whole["told"]] == [
        ("ops", "firing", "waiting")
    ]


@pytest.mark.parametrize("number", ["0", "999", "x", "9" * 30])
def test_an_alert_that_is_not_there_is_a_404(number: str) -> None:
    assert call("get", f"/alerts/{number}").status_code == 404
    assert call("post", f"/alerts/{number}:acknowledge", {}).status_code == 404


def test_what_does_not_fire_cannot_be_acknowledged(slots: Slots) -> None:
    rule(pending_s=60)
    services.evaluate(now_ms=slots.sample(a=100))

    answer = call("post", f"/alerts/{Alert.objects.get().pk}:acknowledge", {})

    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


def test_a_rule_is_made_changed_from_its_version_and_deleted() -> None:
    made = call("post", "/alert-rules", RULE)
    assert made.status_code == 201
    number = made.json()["id"]
    change = {**RULE, "threshold": 5, "scope": "prefix", "subject": "bill", "version": 1}

    changed = call("put", f"/alert-rules/{number}", change)
    again = call("put", f"/alert-rules/{number}", change)

    assert (changed.json()["threshold"], changed.json()["version"]) == (5.0, 2)
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert [row["subject"] for row in call("get", "/alert-rules").json()["items"]] == ["bill"]
    assert call("delete", f"/alert-rules/{number}").status_code == 204
    assert call("get", f"/alert-rules/{number}").status_code == 404
    assert call("delete", f"/alert-rules/{number}").status_code == 404


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": " "},
        {"kind": "moon"},
        {"threshold": 0},
        {"threshold": -1},
        {"threshold": "100"},
        {"threshold": True},
        {"threshold": 10**400},
        {"pending_s": -1},
        {"pending_s": 86_401},
        {"scope": "prefix"},
        {"scope": "any", "subject": "x"},
        {"scope": "name", "subject": "a\0b"},
        {"kind": "disk", "scope": "name", "subject": "x"},
        {"severity": "panic"},
        {"enabled": "yes"},
        {"surprise": 1},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    answer = call("post", "/alert-rules", {**RULE, **change})

    assert (answer.status_code, AlertRule.objects.count()) == (422, 0)


def test_two_rules_have_two_names() -> None:
    call("post", "/alert-rules", RULE)

    assert call("post", "/alert-rules", RULE).status_code == 409


def test_a_silence_is_made_for_a_time_and_ended_once(slots: Slots) -> None:
    ends = moment(START_MS + HOUR_MS).isoformat()

    made = call("post", "/silences", {"ends_at": ends, "reason": "moving", "kind": "lag"})

    assert (made.status_code, made.json()["is_active"]) == (201, True)
    path = f"/silences/{made.json()['id']}:end"
    slots.pause(60)
    assert call("post", path).json()["ended_by"] == "anonymous at 127.0.0.1"
    assert call("post", path).status_code == 409
    assert [row["is_active"] for row in call("get", "/silences").json()["items"]] == [False]


@pytest.mark.parametrize(
    "change",
    [
        {"reason": ""},
        {"ends_at": "yesterday"},
        {"ends_at": START_MS - 1},
        {"starts_at": START_MS + 2 * HOUR_MS},
        {"ends_at": START_MS + 31 * 24 * HOUR_MS},
        {"scope": "name"},
        {"kind": "moon"},
    ],
)
def test_a_silence_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    body = {"ends_at": START_MS + HOUR_MS, "reason": "moving", **change}

    assert call("post", "/silences", body).status_code == 422
    assert Silence.objects.count() == 0


def test_a_channel_never_tells_its_address() -> None:
    made = call("post", "/alert-channels", CHANNEL)
    number = made.json()["id"]
    change = {"name": "renamed", "kind": "webhook", "version": 1}

    changed = call("put", f"/alert-channels/{number}", change)

    assert made.status_code == 201
    assert Channel.objects.get().url == HOOK
    for answer in (made, changed, call("get", "/alert-channels")):
        assert "secret-part" not in answer.content.decode()
    assert changed.json()["address"] == "https://hooks.example.com/…"
    assert call("delete", f"/alert-channels/{number}").status_code == 204
    assert call("get", f"/alert-channels/{number}").status_code == 404


@pytest.mark.parametrize(
    "change",
    [
        {"url": ""},
        {"url": "http://169.254.169.254/"},
        {"url": "https://localhost:22/"},
        {"kind": "mail", "url": ""},
        {"kind": "mail", "recipients": ["not an address"]},
        {"kind": "mail", "recipients": ["a@example.com\nBcc: b@example.com"]},
        {"kind": "pigeon"},
        {"rate_per_min": 0},
        {"rate_per_min": 601},
    ],
)
def test_a_channel_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    answer = call("post", "/alert-channels", {**CHANNEL, **change})

    assert (answer.status_code, Channel.objects.count()) == (422, 0)


def test_a_test_of_a_channel_is_sent_later_and_its_deliveries_are_listed(slots: Slots) -> None:
    found = channel()

    told = call("post", f"/alert-channels/{found.pk}:test")

    assert (told.status_code, told.json()["state"]) == (202, "waiting")
    assert Notification.objects.get().facts["event"] == "test"
    assert call("get", f"/alert-channels/{found.pk}/deliveries").json()["items"] == []
    assert call("post", "/alert-channels/999:test").status_code == 404


def test_silences_are_listed_page_by_page() -> None:
    for number in range(3):
        silence(from_ms=START_MS, to_ms=START_MS + HOUR_MS, reason=f"reason {number}")

    first = call("get", "/silences?limit=2").json()
    second = call("get", f"/silences?limit=2&cursor={first['next_cursor']}").json()

    assert [row["reason"] for row in first["items"] + second["items"]] == [
        "reason 2", "reason 1", "reason 0",
    ]  # fmt: skip
