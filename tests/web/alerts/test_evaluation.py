"""Rules over rows: what begins, fires and ends, and what nobody knows."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.alerts import services
from apps.alerts.models import Alert, AlertEvent, AlertRule, Notification
from apps.alerts.services.evaluation import OPEN_PER_RULE_MAX
from apps.alerts.services.rules import RuleTerms
from apps.core.exceptions import ProblemError
from apps.core.moments import moment, ms_of
from apps.metrics.models import GroupSummary
from tests.web.alerts.rows import HOUR_MS, Slots, channel, rule, silence
from tests.web.deadletters.letters import LetterEngine, project
from tests.web.metrics.conftest import at_once
from tests.web.metrics.fakes import START_MS, store_sample

pytestmark = pytest.mark.django_db


@pytest.fixture
def slots() -> Slots:
    AlertRule.objects.all().delete()
    return Slots()


def states() -> list[tuple[str, str]]:
    return list(Alert.objects.order_by("subject", "pk").values_list("subject", "state"))


def fire(slots: Slots, **groups: int) -> Alert:
    """Sample and look until what is above has lasted; return the first alert."""
    for _ in range(3):
        services.evaluate(now_ms=slots.sample(**groups))
    return Alert.objects.order_by("pk")[0]


def test_an_alert_goes_from_pending_to_firing_and_over(slots: Slots) -> None:
    rule()
    services.evaluate(now_ms=slots.sample(billing=100, mailing=99))
    assert states() == [("billing", "pending")]

    services.evaluate(now_ms=slots.sample(billing=150, mailing=99))
    services.evaluate(now_ms=slots.sample(billing=120, mailing=99))
    assert states() == [("billing", "firing")]

    for _ in range(4):
        services.evaluate(now_ms=slots.sample(billing=7, mailing=99))
    alert = Alert.objects.get()
    assert (alert.state, alert.value, alert.peak) == ("resolved", 7, 150)
    assert alert.resolution == "below the threshold"
    assert list(alert.events.values_list("state", "value")) == [
        ("pending", 100), ("firing", 120), ("resolved", 7),
    ]  # fmt: skip


def test_one_that_never_fired_leaves_no_trace(slots: Slots) -> None:
    rule()
    services.evaluate(now_ms=slots.sample(billing=100))

    services.evaluate(now_ms=slots.sample(billing=99))

    assert (Alert.objects.count(), AlertEvent.objects.count()) == (0, 0)


def test_there_is_one_open_alert_a_rule_and_subject_and_another_after_the_end(
    slots: Slots,
) -> None:
    rule()
    fire(slots, billing=100)
    services.evaluate(now_ms=slots.sample(billing=100))
    for _ in range(4):
        services.evaluate(now_ms=slots.sample(billing=0))

    services.evaluate(now_ms=slots.sample(billing=100))

    assert states() == [("billing", "resolved"), ("billing", "pending")]


def test_missing_samples_neither_fire_nor_resolve_and_are_shown(slots: Slots) -> None:
    found = rule()
    fire(slots, billing=100)
    last_ms = slots.sample(billing=100, mailing=200)
    services.evaluate(now_ms=last_ms)

    now_ms = slots.pause(3_600)
    services.evaluate(now_ms=now_ms)
    services.evaluate(now_ms=slots.pause(60))

    assert states() == [("billing", "firing"), ("mailing", "pending")]
    assert {alert.unknown_since for alert in Alert.objects.all()} == {moment(last_ms)}
    found.refresh_from_db()
    assert found.unknown_since == moment(now_ms)
    services.evaluate(now_ms=slots.sample(billing=100, mailing=200))
    assert states() == [("billing", "firing"), ("mailing", "pending")]
    found.refresh_from_db()
    assert (found.unknown_since, found.looked_at) == (None, moment(slots.now_ms))


def test_a_number_that_is_unknown_of_one_group_is_unknown_of_it_alone(slots: Slots) -> None:
    rule(kind="oldest_age", threshold=60, pending_s=0)
    groups = {
        "old": {"lag": 5, "oldest_age_ms": 61_000},
        "unknown": {"lag": 5, "oldest_age_ms": None},
        "empty": {"lag": 0, "oldest_age_ms": None},
    }

    services.evaluate(now_ms=slots.sample(**groups))

    assert states() == [("old", "firing")]
    groups["old"]["oldest_age_ms"] = None
    for _ in range(5):
        services.evaluate(now_ms=slots.sample(**groups))
    alert = Alert.objects.get()
    assert (alert.state, alert.value) == ("firing", 61)
    assert ms_of(alert.unknown_since or alert.pending_at) == slots.now_ms - 20_000


def test_what_a_look_saw_too_long_ago_is_unknown(slots: Slots) -> None:
    rule(kind="blocked_queue", threshold=1, pending_s=0)
    services.evaluate(now_ms=slots.sample(billing={"blocked": 2}))
    slots.sample(billing={"blocked": 0})
    GroupSummary.objects.update(looked_at=moment(slots.now_ms) - timedelta(minutes=3))

    services.evaluate(now_ms=slots.now_ms)

    alert = Alert.objects.get()
    assert (alert.state, alert.value, alert.unknown_since) == ("firing", 2, moment(slots.now_ms))


@pytest.mark.parametrize(
    ("kind", "threshold", "columns"),
    [
        ("blocked_queue", 1, {"blocked": 1}),
        ("lock_refusals", 60, {"refusal_rate": 1.0}),
        ("silent_group", 1, {"lag": 1, "members": 0}),
        ("oldest_age", 600, {"lag": 1, "oldest_age_ms": 600_000}),
        ("lag", 10, {"lag": 10}),
    ],
)
def test_every_kind_of_a_group_fires_for_what_it_is_about_alone(
    slots: Slots, kind: str, threshold: float, columns: dict[str, float]
) -> None:
    rule(kind=kind, threshold=threshold, pending_s=0)

    services.evaluate(now_ms=slots.sample(bad=columns, good={}))

    assert states() == [("bad", "firing")]


@pytest.mark.parametrize("kind", ["lag", "oldest_age", "silent_group"])
def test_a_lag_in_lite_topics_that_is_not_counted_yet_is_unknown_and_not_zero(
    slots: Slots, kind: str
) -> None:
    rule(kind=kind, threshold=1, pending_s=0)
    behind = {"lag": 5, "retry_lag": 0, "members": 0, "oldest_age_ms": 9_000}
    services.evaluate(now_ms=slots.sample(billing=behind))

    services.evaluate(now_ms=slots.sample(billing={**behind, "lag": None, "oldest_age_ms": None}))

    alert = Alert.objects.get()
    assert (alert.state, alert.unknown_since) == ("firing", moment(slots.now_ms))


def test_a_disk_that_fills_up_and_a_broker_that_is_silent_fire(slots: Slots) -> None:
    rule(name="disk", kind="disk", threshold=80, pending_s=0)
    rule(name="silence", kind="no_samples", threshold=60, pending_s=0)
    slots.sample_here(disk_percent=80)

    services.evaluate(now_ms=slots.now_ms)
    services.evaluate(now_ms=slots.pause(60))

    found = Alert.objects.order_by("pk").values_list("rule_name", "subject", "state", "value")
    assert list(found) == [("disk", "broker", "firing", 80), ("silence", "broker", "firing", 60)]
    # What the disk is by now nobody knows.
    assert Alert.objects.get(rule_name="disk").unknown_since is not None


def test_without_any_sample_nothing_is_known_and_nothing_fires(slots: Slots) -> None:
    found = rule(kind="no_samples", threshold=1, pending_s=0)

    services.evaluate(now_ms=START_MS)

    found.refresh_from_db()
    assert (states(), found.unknown_since) == ([], moment(START_MS))


@pytest.mark.django_db(transaction=True)  # Letters are projected by a thread, which commits.
def test_letters_that_died_lately_are_counted_by_group(slots: Slots) -> None:
    rule(kind="dead_letters", threshold=3, pending_s=0)
    engine = LetterEngine()
    engine.bury("billing", 3, died_ms=START_MS)
    engine.bury("mailing", 2, died_ms=START_MS)
    engine.bury("long-ago", 9, died_ms=START_MS - HOUR_MS)
    project(engine)

    services.evaluate(now_ms=slots.sample(billing={}, mailing={}, other={}))

    assert states() == [("billing", "firing")]


@pytest.mark.parametrize(
    ("scope", "subject", "found"),
    [
        ("any", "", ["bill", "billing", "mail"]),
        ("prefix", "bill", ["bill", "billing"]),
        ("name", "bill", ["bill"]),
    ],
)
def test_a_scope_says_which_groups_are_looked_at(
    slots: Slots, scope: str, subject: str, found: list[str]
) -> None:
    rule(scope=scope, subject=subject, pending_s=0)

    services.evaluate(now_ms=slots.sample(bill=100, billing=100, mail=100))

    assert [name for name, _ in states()] == found


def test_an_alert_ends_with_its_group_its_rule_and_its_scope(slots: Slots) -> None:
    found = rule(pending_s=0)
    services.evaluate(now_ms=slots.sample(a=100, b=100, c=100))
    services.evaluate(now_ms=slots.sample(a=100, b=100))
    terms = RuleTerms(
        name="behind", kind="lag", threshold=100, pending_s=0, scope="name", subject="a"
    )
    services.change_rule(rule_id=found.pk, terms=terms, version=1, by="ada", now_ms=START_MS)
    services.evaluate(now_ms=slots.sample(a=100, b=100))
    services.delete_rule(rule_id=found.pk, by="ada")

    services.evaluate(now_ms=slots.sample(a=100, b=100))

    assert list(Alert.objects.order_by("subject").values_list("subject", "resolution")) == [
        ("a", "the rule is gone or disabled"),
        ("b", "the rule is about others"),
        ("c", "it is not there any more"),
    ]
    assert {alert.rule_name for alert in Alert.objects.all()} == {"behind"}


def test_a_rule_that_is_disabled_is_not_looked_at(slots: Slots) -> None:
    rule(enabled=False, pending_s=0)

    step = services.evaluate(now_ms=slots.sample(billing=100))

    assert (step.done, states()) == (0, [])


def test_an_acknowledged_alert_goes_on_and_ends_like_others(slots: Slots) -> None:
    rule()
    alert = fire(slots, billing=100)

    services.acknowledge(alert_id=alert.pk, note="on it", by="ada", now_ms=slots.now_ms)
    services.evaluate(now_ms=slots.sample(billing=300))

    alert.refresh_from_db()
    assert (alert.state, alert.acknowledged_by, alert.peak) == ("acknowledged", "ada", 300)
    for _ in range(4):
        services.evaluate(now_ms=slots.sample(billing=0))
    assert list(alert.events.values_list("state", "by", "note")) == [
        ("pending", "", ""),
        ("firing", "", ""),
        ("acknowledged", "ada", "on it"),
        ("resolved", "", "below the threshold"),
    ]


def test_only_what_fires_is_acknowledged_and_twice_is_once(slots: Slots) -> None:
    rule()
    services.evaluate(now_ms=slots.sample(billing=100))
    pending = Alert.objects.get()
    with pytest.raises(ProblemError, match="pending"):
        services.acknowledge(alert_id=pending.pk, by="ada", now_ms=slots.now_ms)
    alert = fire(slots, billing=100)

    for by in ("ada", "bob"):
        services.acknowledge(alert_id=alert.pk, by=by, now_ms=slots.now_ms)

    alert.refresh_from_db()
    assert alert.acknowledged_by == "ada"
    assert alert.events.filter(state="acknowledged").count() == 1


def test_channels_are_told_once_that_it_fires_and_once_that_it_is_over(slots: Slots) -> None:
    rule(severity="warning")
    channel(name="all")
    channel(name="worst only", severity_min="critical")
    channel(name="off", enabled=False)
    channel(name="no ends", tells_end=False)
    fire(slots, billing=100)
    services.evaluate(now_ms=slots.sample(billing=100))

    for _ in range(5):
        services.evaluate(now_ms=slots.sample(billing=0))

    told = [
        (row.channel.name, row.facts["event"], row.facts["subject"], row.facts["value"])
        for row in Notification.objects.select_related("channel").order_by("pk")
    ]
    assert told == [
        ("all", "firing", "billing", 100.0),
        ("no ends", "firing", "billing", 100.0),
        ("all", "resolved", "billing", 0.0),
    ]


def test_a_silence_keeps_channels_quiet_until_it_is_over(slots: Slots) -> None:
    rule()
    channel()
    found = silence(from_ms=START_MS, to_ms=START_MS + HOUR_MS, scope="prefix", subject="bill")
    fire(slots, billing=100, mailing=100)

    told = [row.facts["subject"] for row in Notification.objects.order_by("pk")]
    assert told == ["mailing"]
    services.end_silence(silence_id=found.pk, by="bob", now_ms=slots.now_ms)
    services.evaluate(now_ms=slots.sample(billing=100, mailing=100))
    told = [row.facts["subject"] for row in Notification.objects.order_by("pk")]
    assert told == ["mailing", "billing"]


def test_an_alert_that_came_and_went_in_a_silence_tells_nobody(slots: Slots) -> None:
    rule()
    channel()
    silence(from_ms=START_MS, to_ms=START_MS + HOUR_MS, kind="lag")
    fire(slots, billing=100)

    for _ in range(5):
        services.evaluate(now_ms=slots.sample(billing=0))

    assert states() == [("billing", "resolved")]
    assert Notification.objects.count() == 0


def test_a_silence_of_another_kind_or_another_time_covers_nothing(slots: Slots) -> None:
    rule()
    channel()
    silence(from_ms=START_MS, to_ms=START_MS + HOUR_MS, kind="disk")
    silence(from_ms=START_MS + HOUR_MS, to_ms=START_MS + 2 * HOUR_MS)

    fire(slots, billing=100)

    assert Notification.objects.count() == 1


def test_one_rule_has_a_limit_of_open_alerts_and_takes_the_worst(slots: Slots) -> None:
    rule(pending_s=0)
    many = {f"g{number:04}": 100 + number for number in range(OPEN_PER_RULE_MAX + 7)}

    services.evaluate(now_ms=slots.sample(**many))
    services.evaluate(now_ms=slots.sample(**many))

    assert Alert.objects.count() == OPEN_PER_RULE_MAX
    assert Alert.objects.filter(subject="g0000").count() == 0


def test_a_look_costs_the_same_queries_however_many_groups_there_are(slots: Slots) -> None:
    rule()
    rule(name="old", kind="oldest_age", threshold=60)
    services.evaluate(now_ms=slots.sample())
    counts = []
    for groups in (3, 300):
        slots.sample(**{f"g{number}": 10 * (number % 2) for number in range(groups)})
        with CaptureQueriesContext(connection) as queries:
            services.evaluate(now_ms=slots.now_ms)
        counts.append(len(queries))

    assert counts[0] == counts[1] <= 14


@pytest.mark.django_db(transaction=True)
def test_two_looks_at_once_make_one_alert_and_one_notification(slots: Slots) -> None:
    rule(pending_s=0)
    channel()
    slots.sample(billing=100)

    at_once(lambda: services.evaluate(now_ms=slots.now_ms))

    assert (Alert.objects.count(), AlertEvent.objects.count()) == (1, 1)
    assert Notification.objects.count() == 1


def test_a_clock_that_was_set_back_says_nothing_of_now(slots: Slots) -> None:
    rule(pending_s=0)
    store_sample(START_MS + HOUR_MS).save()

    services.evaluate(now_ms=START_MS)

    assert states() == []
