"""Pages of alerts as a browser without scripts sees them, and the admin."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.alerts import services
from apps.alerts.kinds import Kind
from apps.alerts.models import Alert, AlertRule, Channel, Notification, Silence
from apps.alerts.selectors import attention
from apps.console.attention import OLD_AFTER_MS, watch
from apps.engine.clock import SystemClock
from tests.web.alerts.rows import HOUR_MS, Slots, channel, rule, silence
from tests.web.console.fakes import POLYGLOT
from tests.web.console.test_pages import parsed
from tests.web.metrics.fakes import START_MS, HandClock

pytestmark = pytest.mark.django_db

LISTS = ["/alerts", "/alerts/history", "/alerts/rules", "/alerts/silences", "/alerts/channels"]


@pytest.fixture(autouse=True)
def slots(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slots]:
    AlertRule.objects.all().delete()
    found = Slots()
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _: found.now_ms)
    watch.forget()
    yield found
    watch.forget()


@pytest.fixture
def browser() -> Client:
    return Client()


@pytest.fixture
def firing(slots: Slots) -> Alert:
    rule(pending_s=0, severity="critical")
    channel()
    services.evaluate(now_ms=slots.sample(billing=1_234))
    return Alert.objects.get()


def text_of(answer: Any) -> str:
    return " ".join(parsed(answer).texts)


@pytest.mark.parametrize("path", [*LISTS, "/alerts/rules/new"])
def test_every_page_is_there_without_engine_rows_and_scripts(browser: Client, path: str) -> None:
    answer = browser.get(path)

    page = parsed(answer)
    assert answer.status_code == 200
    assert all("src" in script for script in page.all("script"))
    assert not any("style" in attributes for _, attributes in page.elements)
    labelled = {label.get("for") for label in page.all("label")}
    for field in [*page.all("input"), *page.all("select")]:
        if field.get("id", "").startswith("id_") and field.get("type") != "hidden":
            assert field["id"] in labelled


def test_what_fires_comes_first_and_is_acknowledged_by_a_button(
    browser: Client, firing: Alert, slots: Slots
) -> None:
    rule(name="a rule that waits", pending_s=60, threshold=1)
    services.evaluate(now_ms=slots.sample(billing=1_234, another=5))
    rows = [row for row in parsed(browser.get("/alerts")).texts if row in ("firing", "pending")]
    assert rows[:2] == ["firing", "pending"]

    answer = browser.post(f"/alerts/{firing.pk}/acknowledge", {"note": "on it"}, follow=True)

    said = text_of(answer)
    assert "Acknowledged: it stays open until it is over." in said
    assert "1,234 messages" in said
    firing.refresh_from_db()
    assert (firing.state, firing.acknowledged_by) == ("acknowledged", "anonymous at 127.0.0.1")
    again = browser.post("/alerts/999/acknowledge", follow=True)
    assert again.status_code == 404


def test_an_alert_whose_value_is_unknown_says_since_when(
    browser: Client, firing: Alert, slots: Slots
) -> None:
    services.evaluate(now_ms=slots.pause(600))

    for path in ("/alerts", f"/alerts/{firing.pk}"):
        assert "unknown since 10 min" in text_of(browser.get(path))
    assert "unknown since" in text_of(browser.get("/alerts/rules"))


def test_a_rule_is_made_and_changed_by_forms(browser: Client) -> None:
    entered = {
        "name": "mine", "kind": "lag", "threshold": "7", "pending_s": "5", "severity": "info",
        "scope": "any", "subject": "", "enabled": "on",
    }  # fmt: skip
    made = browser.post("/alerts/rules/create", entered, follow=True)
    found = AlertRule.objects.get()
    assert (made.status_code, found.threshold, found.created_by) == (
        200, 7, "anonymous at 127.0.0.1",
    )  # fmt: skip

    browser.post(f"/alerts/rules/{found.pk}/change", {**entered, "threshold": "8", "version": "1"})
    stale = browser.post(f"/alerts/rules/{found.pk}/change", {**entered, "version": "1"})

    found.refresh_from_db()
    assert (found.threshold, found.version) == (8, 2)
    assert stale.status_code == 422
    assert "Somebody has changed the rule meanwhile: look again." in text_of(stale)


def test_what_is_refused_is_shown_again_as_it_was_entered(browser: Client) -> None:
    entered = {"name": POLYGLOT, "kind": "disk", "threshold": "7", "pending_s": "5",
               "severity": "info", "scope": "name", "subject": "x"}  # fmt: skip

    answer = browser.post("/alerts/rules/create", entered)

    assert answer.status_code == 422
    assert "about the broker, not about a group" in text_of(answer)
    names = {field.get("name"): field.get("value") for field in parsed(answer).all("input")}
    assert (names["name"], names["subject"]) == (POLYGLOT, "x")


def test_a_silence_is_made_from_an_alert_and_ended(browser: Client, slots: Slots) -> None:
    form = parsed(browser.get("/alerts/silences?kind=lag&scope=name&subject=billing"))
    assert {f.get("name"): f.get("value") for f in form.all("input")}["subject"] == "billing"

    browser.post(
        "/alerts/silences/create",
        {"kind": "lag", "scope": "name", "subject": "billing", "minutes": "60", "reason": "why"},
    )

    found = Silence.objects.get()
    assert (found.ends_at - found.starts_at).total_seconds() == 3_600
    assert "active" in parsed(browser.get("/alerts/silences")).texts
    slots.pause(60)
    browser.post(f"/alerts/silences/{found.pk}/end")
    assert "ended" in parsed(browser.get("/alerts/silences")).texts


def test_a_channel_is_made_tried_and_deleted_and_its_secret_is_never_shown(
    browser: Client,
) -> None:
    browser.post(
        "/alerts/channels/create",
        {"name": "ops", "kind": "webhook", "url": "https://hooks.example.com/secret-part",
         "recipients": "", "severity_min": "info", "rate_per_min": "5", "enabled": "on"},
    )  # fmt: skip
    found = Channel.objects.get()

    told = browser.post(f"/alerts/channels/{found.pk}/test", follow=True)

    assert "A test goes out within seconds" in text_of(told)
    assert Notification.objects.get().facts["event"] == "test"
    for path in ("/alerts/channels", f"/alerts/channels/{found.pk}"):
        page = browser.get(path).content.decode()
        assert "secret-part" not in page
        assert "https://hooks.example.com/…" in page
    browser.post(f"/alerts/channels/{found.pk}/delete")
    assert Channel.objects.count() == 0


@pytest.mark.parametrize("path", ["/alerts/999", "/alerts/rules/999", "/alerts/channels/999"])
def test_what_is_not_there_is_a_page_that_says_so(browser: Client, path: str) -> None:
    answer = browser.get(path)

    assert answer.status_code == 404
    assert "Not there" in text_of(answer)


def test_hostile_texts_stay_texts_on_every_page(browser: Client, slots: Slots) -> None:
    rule(name=POLYGLOT[:100], pending_s=0)
    found = channel(name=POLYGLOT[:100])
    silence(from_ms=START_MS, to_ms=START_MS + HOUR_MS, scope="name", subject="x", reason=POLYGLOT)
    services.evaluate(now_ms=slots.sample(**{POLYGLOT[:100]: 500}))
    alert = Alert.objects.get()
    services.acknowledge(alert_id=alert.pk, note=POLYGLOT, by=POLYGLOT, now_ms=slots.now_ms)
    Notification.objects.update(error=POLYGLOT)
    watch.take(lambda: attention(now_ms=slots.now_ms), clock=HandClock())
    paths = [
        *LISTS,
        f"/alerts/{alert.pk}",
        f"/alerts/rules/{alert.rule_id}",
        f"/alerts/channels/{found.pk}",
        "/alerts/attention",
        "/alerts/history?subject=<b>",
    ]

    for path in paths:
        page = parsed(browser.get(path))
        assert all("src" in script for script in page.all("script")), path
        assert not page.all("img") or all("onerror" not in image for image in page.all("img"))


def test_the_overview_counts_what_it_has_no_line_for(browser: Client, slots: Slots) -> None:
    rule(pending_s=0)
    services.evaluate(now_ms=slots.sample(billing=1_234, shipping=1_234))
    watch.take(lambda: attention(now_ms=slots.now_ms, lines_max=1), clock=SystemClock())

    assert "and 1 more" in text_of(browser.get("/alerts/attention"))


def test_the_overview_says_what_fires_and_that_nobody_knows(firing: Alert, slots: Slots) -> None:
    clock = HandClock()
    browser = Client()
    assert "fires" not in text_of(browser.get("/alerts/attention"))
    watch.take(lambda: attention(now_ms=slots.now_ms), clock=clock)

    shown = watch.picture(clock=clock)
    assert (shown["level"], shown["firing"]) == ("critical", 1)
    assert (shown["alerts"][0]["subject"], shown["is_old"]) == ("billing", False)
    clock.now_ms += OLD_AFTER_MS + 1_000
    assert "the database is away" in str(watch.picture(clock=clock)["note"])
    services.acknowledge(alert_id=firing.pk, by="ada", now_ms=slots.now_ms)
    watch.take(lambda: attention(now_ms=slots.now_ms), clock=clock)
    assert watch.picture(clock=clock)["level"] == "none"
    slots.pause(300)
    clock.now_ms = slots.now_ms
    watch.take(lambda: attention(now_ms=slots.now_ms), clock=clock)
    assert (watch.picture(clock=clock)["level"], watch.picture(clock=clock)["is_old"]) == (
        "stale",
        True,
    )
    watch.take(lambda: attention(now_ms=slots.now_ms), clock=SystemClock())
    assert "nobody knows what fires" in text_of(browser.get("/alerts/attention"))


@pytest.mark.parametrize("path", LISTS)
def test_lists_ask_the_same_queries_however_long_they_are(
    browser: Client, slots: Slots, path: str
) -> None:
    counts = []
    for number in (2, 12):
        for one in range(number):
            name = f"{number} {one}"
            rule(name=name, pending_s=0, threshold=1)
            channel(name=name)
            silence(from_ms=START_MS, to_ms=START_MS + HOUR_MS, scope="name", subject=name)
        services.evaluate(now_ms=slots.sample(**{f"g{one}": 9 for one in range(number)}))
        with CaptureQueriesContext(connection) as queries:
            assert browser.get(path).status_code == 200
        counts.append(len(queries))

    assert counts[0] == counts[1] <= 6


@pytest.mark.parametrize(
    "kind",
    ["alertrule", "alert", "alertevent", "silence", "channel", "notification", "delivery", "watch"],
)
def test_the_admin_shows_every_model_in_few_queries(slots: Slots, kind: str) -> None:
    user = get_user_model().objects.create_superuser("root", password="x")
    browser = Client()
    browser.force_login(user)
    for number in range(8):
        rule(name=f"rule {number}", pending_s=0, threshold=1)
        channel(name=f"channel {number}")
    services.evaluate(now_ms=slots.sample(**{f"g{one}": 9 for one in range(5)}))

    with CaptureQueriesContext(connection) as queries:
        answer = browser.get(f"/admin/alerts/{kind}/")

    assert answer.status_code == 200
    assert "secret-part" not in answer.content.decode()
    assert len(queries) <= 10
    assert browser.get(f"/admin/alerts/{kind}/add/").status_code == 403


def test_the_rules_to_begin_with_are_ones_that_an_operator_could_make() -> None:
    migration = importlib.import_module("apps.alerts.migrations.0002_first_rules")

    migration.add_first_rules(apps, None)
    migration.add_first_rules(apps, None)

    assert AlertRule.objects.count() == len(migration.FIRST_RULES)
    assert {found.kind for found in AlertRule.objects.all()} == {kind.value for kind in Kind}
    for found in AlertRule.objects.all():
        terms = services.RuleTerms(
            name=found.name,
            kind=found.kind,
            threshold=found.threshold,
            pending_s=found.pending_s,
            severity=found.severity,
        )
        services.change_rule(rule_id=found.pk, terms=terms, version=1, by="ada", now_ms=START_MS)
