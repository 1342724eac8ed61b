"""The outbox: what is sent, tried again, given up and held back, and what each attempt said."""

import json
import smtplib
import threading
from dataclasses import replace
from typing import Any

import pytest
from django.core import mail

from apps.alerts import services
from apps.alerts.models import Alert, AlertRule, Channel, Delivery, Notification
from apps.alerts.outbound.posting import Answer, PostFailed
from apps.alerts.outbound.targets import RefusedTarget
from apps.alerts.services import delivery
from apps.alerts.services.delivery import ATTEMPTS_MAX, CLAIM_KEPT_MS, backoff_ms
from apps.core.moments import moment, ms_of
from tests.web.alerts.rows import HOOK, Slots, channel, rule
from tests.web.metrics.conftest import at_once
from tests.web.metrics.fakes import START_MS, HandClock

pytestmark = pytest.mark.django_db


class Hooks:
    """Answers posts as the test says, and keeps them."""

    def __init__(self) -> None:
        self.answers: list[Answer | Exception] = []
        self.got: list[tuple[str, Any]] = []

    def post(self, url: str, body: bytes) -> Answer:
        self.got.append((url, json.loads(body)))
        answer = self.answers.pop(0) if self.answers else Answer(status=200, body=b"")
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


def trial_of(found: Channel, *, at_ms: int = START_MS) -> Notification:
    """Have a channel be tried."""
    return services.try_channel(channel_id=found.pk, by="ada", now_ms=at_ms)


def state_of(found: Notification) -> tuple[str, int, str]:
    found.refresh_from_db()
    return found.state, found.attempts, found.error


def test_an_alert_reaches_a_webhook_as_json(hooks: Hooks, clock: HandClock) -> None:
    AlertRule.objects.all().delete()
    slots = Slots()
    rule(pending_s=0)
    channel()
    services.evaluate(now_ms=slots.sample(billing=123))
    clock.now_ms = slots.now_ms

    step = services.deliver(clock=clock, post=hooks.post)

    assert (step.done, step.more) == (1, False)
    ((url, body),) = hooks.got
    assert url == HOOK
    alert, told = Alert.objects.get(), Notification.objects.get()
    assert (body["version"], body["id"], body["event"]) == (1, str(told.pk), "firing")
    assert body["alert"]["alert_id"] == str(alert.pk)
    assert (
        body["alert"]["summary"]
        == "behind: billing has 123 messages, from 100 messages on it fires"
    )
    assert (body["alert"]["value"], body["alert"]["unit"]) == (123.0, "messages")
    assert (told.state, told.attempts, ms_of(told.ended_at or told.next_at)) == (
        "sent", 1, clock.now_ms,
    )  # fmt: skip


def test_chats_get_a_text_of_their_own_shape(hooks: Hooks, clock: HandClock) -> None:
    hooks.answers = [Answer(status=200, body=b'{"errcode": 0, "errmsg": "ok"}')]
    trial_of(channel(name="ding <b>", kind="dingtalk"))
    trial_of(channel(name="slack <b> & co", kind="slack"))

    services.deliver(clock=clock, post=hooks.post)

    (_, ding), (_, slack) = hooks.got
    assert ding["msgtype"] == "text"
    assert ding["text"]["content"].startswith("TEST info: A test of the channel ding <b>")
    assert slack["text"].startswith("TEST info: A test of the channel slack &lt;b&gt; &amp; co")
    assert set(Notification.objects.values_list("state", flat=True)) == {"sent"}


def test_a_robot_that_refuses_in_its_body_has_refused(hooks: Hooks, clock: HandClock) -> None:
    hooks.answers = [
        Answer(status=200, body=b'{"errcode":310000,"errmsg":"keywords not in content"}')
    ]
    told = trial_of(channel(kind="dingtalk"))

    services.deliver(clock=clock, post=hooks.post)

    state, attempts, error = state_of(told)
    assert (state, attempts) == ("waiting", 1)
    assert "keywords not in content" in error


@pytest.mark.parametrize(
    ("answer", "error", "status"),
    [
        (Answer(status=500, body=b"no"), "answered 500", 500),
        (Answer(status=404, body=b""), "answered 404", 404),
        (Answer(status=302, body=b""), "answered with a redirect, which is not followed", 302),
        (PostFailed("no answer within 6 s"), "no answer within 6 s", None),
        (PostFailed("a\0b"), "ab", None),
    ],
)
def test_what_fails_waits_and_the_attempt_says_why(
    hooks: Hooks, clock: HandClock, answer: Any, error: str, status: int | None
) -> None:
    hooks.answers = [answer]
    told = trial_of(channel())

    services.deliver(clock=clock, post=hooks.post)

    assert state_of(told) == ("waiting", 1, error)
    assert ms_of(told.next_at) == clock.now_ms + backoff_ms(1)
    attempt = Delivery.objects.get()
    assert (attempt.is_good, attempt.status, attempt.error) == (False, status, error)


def test_pauses_double_up_to_ten_minutes_and_the_tenth_failure_is_the_last(
    hooks: Hooks, clock: HandClock
) -> None:
    hooks.answers = [Answer(status=503, body=b"")] * ATTEMPTS_MAX
    told = trial_of(channel(rate_per_min=600))
    pauses = []
    for _ in range(ATTEMPTS_MAX):
        # A moment before it is due nothing happens.
        clock.now_ms = ms_of(told.next_at) - 1
        assert services.deliver(clock=clock, post=hooks.post).done == 0
        clock.now_ms += 1
        services.deliver(clock=clock, post=hooks.post)
        told.refresh_from_db()
        pauses.append((ms_of(told.next_at) - clock.now_ms) // 1_000)

    assert state_of(told)[:2] == ("failed", ATTEMPTS_MAX)
    assert pauses[:9] == [5, 10, 20, 40, 80, 160, 320, 600, 600]
    assert Delivery.objects.count() == ATTEMPTS_MAX
    assert services.deliver(clock=clock, post=hooks.post).done == 0


def test_an_address_that_is_refused_is_given_up_at_once(hooks: Hooks, clock: HandClock) -> None:
    hooks.answers = [RefusedTarget("10.0.0.1 is not a public address")]
    told = trial_of(channel())

    services.deliver(clock=clock, post=hooks.post)

    assert state_of(told) == ("failed", 1, "10.0.0.1 is not a public address")


def test_the_settings_decide_whether_a_post_leaves_the_house(clock: HandClock) -> None:
    """Without a post of the test's own: nothing is connected to."""
    found = channel()
    Channel.objects.filter(pk=found.pk).update(url="https://169.254.169.254/latest/meta-data/")
    told = trial_of(found)

    services.deliver(clock=clock)

    state, attempts, error = state_of(told)
    assert (state, attempts) == ("failed", 1)
    assert "not a public address" in error


def test_a_channel_gets_no_more_a_minute_than_it_is_set_to(hooks: Hooks, clock: HandClock) -> None:
    slow, fast = channel(name="slow", rate_per_min=2), channel(name="fast")
    for _ in range(4):
        trial_of(slow)
        trial_of(fast)

    services.deliver(clock=clock, post=hooks.post)
    services.deliver(clock=clock, post=hooks.post)

    sent = Notification.objects.filter(state="sent")
    assert (sent.filter(channel=slow).count(), sent.filter(channel=fast).count()) == (2, 4)
    assert Notification.objects.filter(state="waiting", attempts=0).count() == 2
    clock.now_ms += 60_001
    services.deliver(clock=clock, post=hooks.post)
    assert sent.filter(channel=slow).count() == 4


def test_a_step_sends_a_few_and_says_that_more_is_left(hooks: Hooks, clock: HandClock) -> None:
    found = channel(rate_per_min=600)
    for _ in range(13):
        trial_of(found)

    steps = [services.deliver(clock=clock, post=hooks.post) for _ in range(2)]

    assert [(step.done, step.more) for step in steps] == [(10, True), (3, False)]


def test_a_step_that_takes_long_leaves_the_rest_to_the_next(hooks: Hooks, clock: HandClock) -> None:
    found = channel(rate_per_min=600)
    for _ in range(5):
        trial_of(found)

    def slow(url: str, body: bytes) -> Answer:
        clock.now_ms += 6_000
        return hooks.post(url, body)

    first = services.deliver(clock=clock, post=slow)

    assert (first.done, first.more) == (3, True)
    assert Notification.objects.filter(state="sending").count() == 0
    assert services.deliver(clock=clock, post=hooks.post).done == 2


def test_what_a_killed_worker_left_behind_is_taken_up_with_the_same_id(
    hooks: Hooks, clock: HandClock
) -> None:
    told = trial_of(channel())

    class Killed(BaseException):
        """What ends a worker."""

    def dies(url: str, body: bytes) -> Answer:
        hooks.post(url, body)
        raise Killed

    with pytest.raises(Killed):
        services.deliver(clock=clock, post=dies)
    assert services.deliver(clock=clock, post=hooks.post).done == 0

    clock.now_ms += CLAIM_KEPT_MS
    services.deliver(clock=clock, post=hooks.post)

    assert state_of(told)[:2] == ("sent", 1)
    assert [body["id"] for _, body in hooks.got] == [str(told.pk)] * 2


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_send_each_notification_once(hooks: Hooks, clock: HandClock) -> None:
    found = channel(rate_per_min=600)
    for _ in range(12):
        trial_of(found)
    lock = threading.Lock()

    def post(url: str, body: bytes) -> Answer:
        with lock:
            return hooks.post(url, body)

    at_once(lambda: services.deliver(clock=clock, post=post))

    ids = [body["id"] for _, body in hooks.got]
    assert len(ids) == len(set(ids)) == 12
    assert Delivery.objects.count() == 12


def test_mail_goes_to_every_recipient(clock: HandClock, settings: Any) -> None:
    has_mail(settings)
    found = channel(kind="mail", url="", recipients=("ada@example.com", "bob@example.com"))
    mail.outbox.clear()
    told = trial_of(found)

    services.deliver(clock=clock)

    assert state_of(told)[0] == "sent"
    (message,) = mail.outbox
    assert message.to == ["ada@example.com", "bob@example.com"]
    assert message.subject == "[mqweb] TEST info: A test of the channel ops, asked for by ada"


def test_people_are_told_in_the_language_that_is_set_and_programs_in_english(
    hooks: Hooks, clock: HandClock, settings: Any
) -> None:
    has_mail(settings)
    telling = replace(settings.MQWEB.telling, alert_language="zh-hans")
    settings.MQWEB = replace(settings.MQWEB, telling=telling)
    AlertRule.objects.all().delete()
    slots = Slots()
    rule(pending_s=0)
    channel(name="program")
    channel(name="chat", kind="dingtalk")
    channel(name="mail", kind="mail", url="", recipients=("ada@example.com",))
    mail.outbox.clear()
    services.evaluate(now_ms=slots.sample(billing=123))
    clock.now_ms = slots.now_ms

    services.deliver(clock=clock, post=hooks.post)

    program, chat = sorted((body for _, body in hooks.got), key=lambda body: "msgtype" in body)
    assert program["alert"]["summary"].isascii()
    assert "告警触发 警告" in chat["text"]["content"]
    assert "billing 当前为 123 条消息" in chat["text"]["content"]
    (message,) = mail.outbox
    assert message.subject == f"[mqweb] {chat['text']['content'].splitlines()[0]}"
    assert "页面" in str(message.body)


def test_a_name_with_line_breaks_makes_no_header_of_a_mail(clock: HandClock, settings: Any) -> None:
    has_mail(settings)
    mail.outbox.clear()
    told = trial_of(
        channel(name="a\r\nBcc: eve@example.com", kind="mail", recipients=("ada@example.com",))
    )

    services.deliver(clock=clock)

    assert state_of(told)[0] == "sent"
    assert "\n" not in mail.outbox[0].subject
    assert mail.outbox[0].to == ["ada@example.com"]


def test_a_mail_server_that_is_away_is_tried_again(
    clock: HandClock, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_mail(settings)

    def away(_: object) -> int:
        raise smtplib.SMTPServerDisconnected("gone")

    monkeypatch.setattr(delivery.EmailMessage, "send", away)
    told = trial_of(channel(kind="mail", recipients=("ada@example.com",)))

    services.deliver(clock=clock)

    assert state_of(told) == ("waiting", 1, "SMTPServerDisconnected: gone")


def test_without_a_mail_server_mail_is_given_up_and_says_what_to_set(clock: HandClock) -> None:
    told = trial_of(channel(kind="mail", recipients=("ada@example.com",)))

    services.deliver(clock=clock)

    assert state_of(told) == ("failed", 1, "no mail server is set (MQWEB_MAIL_HOST)")


def test_what_ended_long_ago_is_deleted_and_what_waits_stays() -> None:
    found = channel()
    day_ms = 86_400_000
    for days in (20, 10):
        old = trial_of(found, at_ms=START_MS - days * day_ms)
        Notification.objects.filter(pk=old.pk).update(
            state="sent", ended_at=moment(START_MS - days * day_ms)
        )
    trial_of(found, at_ms=START_MS - 100 * day_ms)

    step = services.prune(now_ms=START_MS)

    assert (step.done, step.more) == (1, False)
    assert Notification.objects.count() == 2


def has_mail(settings: Any) -> None:
    telling = replace(settings.MQWEB.telling, mail_host="mail.example.com")
    settings.MQWEB = replace(settings.MQWEB, telling=telling)
