"""Sends what the outbox holds: claims a few, sends each, writes down what came of it.

A notification is claimed in one transaction and sent outside of any. Whoever is killed between the
two leaves one that another worker takes up when its time is over: it may be told twice, with the
same id, and is never left out.
"""

import smtplib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.utils import translation

from apps.alerts.models import Channel, ChannelKind, Delivery, Notification, NotificationState
from apps.alerts.models.fields import TEXT_CHARACTERS_MAX
from apps.alerts.outbound import policy, posting, shapes
from apps.alerts.outbound.targets import RefusedTarget
from apps.clockwork.steps import Step
from apps.core.moments import moment
from apps.engine.clock import Clock

CLAIMED_MAX = 10
# One post takes six seconds at most and a mail a few more; a step ends within half of its lease.
BUDGET_MS = 12_000
CLAIM_KEPT_MS = 60_000
ATTEMPTS_MAX = 10
BACKOFF_MS = 5_000
BACKOFF_MS_MAX = 600_000
RATE_WINDOW = timedelta(minutes=1)

Post = Callable[[str, bytes], posting.Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What came of an attempt; `is_final` says that another one would come to the same."""

    is_good: bool
    status: int | None = None
    error: str = ""
    is_final: bool = False


def deliver(*, clock: Clock, post: Post | None = None) -> Step:
    """Send what is due, a few at a time; say whether more is.

    What fails is tried again with pauses that double, ten times in all. A channel gets no more a
    minute than it is set to: the rest waits.
    """
    began_ms = clock.monotonic_ms()
    claimed = _claimed(clock.wall_ms())
    done = 0
    for notification in claimed:
        if clock.monotonic_ms() - began_ms > BUDGET_MS:
            break
        started_ms = clock.monotonic_ms()
        outcome = _sent(notification, post or _post)
        duration_ms = clock.monotonic_ms() - started_ms
        _write_down(notification, outcome, duration_ms=duration_ms, now_ms=clock.wall_ms())
        done += 1
    left = [notification.pk for notification in claimed[done:]]
    Notification.objects.filter(pk__in=left, state=NotificationState.SENDING).update(
        state=NotificationState.WAITING, next_at=moment(clock.wall_ms())
    )
    return Step(done=done, more=bool(left) or len(claimed) == CLAIMED_MAX)


def backoff_ms(attempts: int) -> int:
    """Return the pause after so many failed attempts."""
    doublings: int = 2 ** min(attempts - 1, 20)
    return min(BACKOFF_MS_MAX, BACKOFF_MS * doublings)


def _claimed(now_ms: int) -> list[Notification]:
    """Take what is due and its channel has room for; the oldest first."""
    now = moment(now_ms)
    open_states = [NotificationState.WAITING, NotificationState.SENDING]
    with transaction.atomic():
        due = Notification.objects.filter(state__in=open_states, next_at__lte=now)
        busy = set(due.values_list("channel_id", flat=True).distinct())
        # Locked in one order: two of us count what a channel was sent one after the other.
        channels = {
            channel.pk: channel
            for channel in Channel.objects.filter(pk__in=busy).order_by("pk").select_for_update()
        }
        room = _room(channels, now_ms)
        found = []
        for notification in due.filter(channel__in=channels).order_by("next_at", "pk")[:200]:
            if room[notification.channel_id] <= 0:
                continue
            room[notification.channel_id] -= 1
            notification.channel = channels[notification.channel_id]
            found.append(notification)
            if len(found) == CLAIMED_MAX:
                break
        Notification.objects.filter(pk__in=[one.pk for one in found]).update(
            state=NotificationState.SENDING, next_at=moment(now_ms + CLAIM_KEPT_MS)
        )
    return found


def _room(channels: dict[int, Channel], now_ms: int) -> Counter[int]:
    """Return how many more each channel may be sent now."""
    since = moment(now_ms) - RATE_WINDOW
    sent = Counter(
        Delivery.objects.filter(channel__in=channels, at__gt=since).values_list(
            "channel_id", flat=True
        )
    )
    # What others are sending at this moment is as good as sent.
    sent.update(
        Notification.objects.filter(
            channel__in=channels, state=NotificationState.SENDING, next_at__gt=moment(now_ms)
        ).values_list("channel_id", flat=True)
    )
    return Counter({key: channel.rate_per_min - sent[key] for key, channel in channels.items()})


def _sent(notification: Notification, post: Post) -> _Outcome:
    channel = notification.channel
    if not channel.enabled and notification.alert_id is not None:
        return _Outcome(is_good=False, error="the channel is disabled", is_final=True)
    if channel.kind == ChannelKind.MAIL:
        return _mailed(notification)
    try:
        answer = post(channel.url, _body(notification))
    except RefusedTarget as refusal:
        return _Outcome(is_good=False, error=str(refusal), is_final=True)
    except posting.PostFailed as failure:
        return _Outcome(is_good=False, error=str(failure))
    return _judged(channel, answer)


def _body(notification: Notification) -> bytes:
    with translation.override(settings.MQWEB.telling.alert_language):
        match notification.channel.kind:
            case ChannelKind.DINGTALK:
                return shapes.as_dingtalk(notification.facts)
            case ChannelKind.SLACK:
                return shapes.as_slack(notification.facts)
    return shapes.as_webhook(notification.facts, notification_id=notification.pk)


def _post(url: str, body: bytes) -> posting.Answer:
    return posting.post(url, body, policy=policy.configured())


def _judged(channel: Channel, answer: posting.Answer) -> _Outcome:
    if 300 <= answer.status < 400:
        error = "answered with a redirect, which is not followed"
        return _Outcome(is_good=False, status=answer.status, error=error)
    if not 200 <= answer.status < 300:
        return _Outcome(is_good=False, status=answer.status, error=f"answered {answer.status}")
    # DingTalk answers 200 and says in the body that it refused.
    if channel.kind == ChannelKind.DINGTALK and b'"errcode":0' not in answer.body.replace(
        b" ", b""
    ):
        text = answer.body.decode(errors="replace")[:200]
        return _Outcome(is_good=False, status=answer.status, error=f"refused: {text}")
    return _Outcome(is_good=True, status=answer.status)


def _mailed(notification: Notification) -> _Outcome:
    if not settings.MQWEB.telling.mail_host:
        error = "no mail server is set (MQWEB_MAIL_HOST)"
        return _Outcome(is_good=False, error=error, is_final=True)
    with translation.override(settings.MQWEB.telling.alert_language):
        subject = shapes.subject_of(notification.facts)
        body = shapes.text_of(notification.facts)
    connection = get_connection()
    message = EmailMessage(
        subject=subject,
        body=body,
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=list(notification.channel.recipients),
        connection=connection,
    )
    try:
        message.send()
    except (OSError, smtplib.SMTPException) as error:
        return _Outcome(is_good=False, error=f"{type(error).__name__}: {error}")
    except UnicodeEncodeError:
        # Said without the error, which would show what cannot be sent.
        error_text = "MQWEB_MAIL_USER or MQWEB_MAIL_PASSWORD has letters that mail cannot carry"
        return _Outcome(is_good=False, error=error_text, is_final=True)
    finally:
        # A login that was refused leaves the connection open.
        with suppress(OSError, smtplib.SMTPException):
            connection.close()
    return _Outcome(is_good=True)


def _write_down(
    notification: Notification, outcome: _Outcome, *, duration_ms: int, now_ms: int
) -> None:
    now = moment(now_ms)
    # A NUL of an answer has no place in a text of the database.
    error = outcome.error.replace("\0", "")[:TEXT_CHARACTERS_MAX]
    attempts = notification.attempts + 1
    changes: dict[str, object] = {"attempts": attempts, "error": error}
    if outcome.is_good:
        changes |= {"state": NotificationState.SENT, "ended_at": now}
    elif outcome.is_final or attempts >= ATTEMPTS_MAX:
        changes |= {"state": NotificationState.FAILED, "ended_at": now}
    else:
        changes |= {
            "state": NotificationState.WAITING,
            "next_at": moment(now_ms + backoff_ms(attempts)),
        }
    with transaction.atomic():
        is_there = Notification.objects.filter(
            pk=notification.pk, state=NotificationState.SENDING
        ).update(**changes)
        if is_there:
            Delivery.objects.create(
                notification=notification,
                channel=notification.channel,
                at=now,
                is_good=outcome.is_good,
                status=outcome.status,
                duration_ms=duration_ms,
                error=error,
            )
