"""Channels, as operators make, change and try them. Knows rows and settings; sends nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from apps.alerts.kinds import Severity
from apps.alerts.models import Channel, ChannelKind, Notification
from apps.alerts.models.channels import RATE_PER_MIN_MAX, RECIPIENTS_MAX, URL_CHARACTERS_MAX
from apps.alerts.models.fields import NAME_CHARACTERS_MAX
from apps.alerts.outbound import policy
from apps.alerts.outbound.targets import RefusedTarget, parsed, shown
from apps.alerts.services import telling
from apps.alerts.services.locking import locked_watch
from apps.audit.services import recorded
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.phrases import sentence
from apps.engine.errors import InvalidArgument

CHANNELS_MAX = 50
_COLUMNS = (
    "name", "kind", "url", "recipients", "severity_min", "rate_per_min", "tells_end", "enabled",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelTerms:
    """What a channel is. An empty `url` of a change keeps the one that is there."""

    name: str
    kind: str
    url: str = ""
    recipients: tuple[str, ...] = ()
    severity_min: str = Severity.INFO
    rate_per_min: int = 30
    tells_end: bool = True
    enabled: bool = True

    def columns(self, *, url_kept: str = "") -> Mapping[str, object]:
        """Return the values by column; raise InvalidArgument for one a channel cannot have."""
        if not 1 <= len(self.name.strip()) <= len(self.name) <= NAME_CHARACTERS_MAX:
            raise InvalidArgument(
                sentence(
                    "a name has 1 to %(name_characters_max)s characters",
                    name_characters_max=NAME_CHARACTERS_MAX,
                )
            )
        if self.kind not in ChannelKind.values:
            raise InvalidArgument(sentence("%(kind)s is no kind of channel", kind=repr(self.kind)))
        if self.severity_min not in list(Severity):
            raise InvalidArgument(
                sentence("%(severity_min)s is no severity", severity_min=repr(self.severity_min))
            )
        if not 1 <= self.rate_per_min <= RATE_PER_MIN_MAX:
            raise InvalidArgument(
                sentence(
                    "rate_per_min is from 1 to %(rate_per_min_max)s",
                    rate_per_min_max=RATE_PER_MIN_MAX,
                )
            )
        url = "" if self.kind == ChannelKind.MAIL else self.url or url_kept
        recipients = self.recipients if self.kind == ChannelKind.MAIL else ()
        if self.kind == ChannelKind.MAIL:
            _check_recipients(recipients)
        else:
            _check_url(url)
        return {
            "name": self.name,
            "kind": self.kind,
            "url": url,
            "recipients": list(recipients),
            "severity_min": self.severity_min,
            "rate_per_min": self.rate_per_min,
            "tells_end": self.tells_end,
            "enabled": self.enabled,
        }


def create_channel(*, terms: ChannelTerms, by: str, now_ms: int) -> Channel:
    """Make a channel. Raises InvalidArgument, and `conflict` where the name is taken."""
    columns = terms.columns()
    with recorded(
        by=by, act="alert_channel.create", kind="alert channel", name=terms.name
    ) as entry:
        if Channel.objects.count() >= CHANNELS_MAX:
            raise ProblemError(
                "conflict",
                sentence(
                    "there are %(channels_max)s channels, and may be no more",
                    channels_max=CHANNELS_MAX,
                ),
            )
        entry.after = _told(columns)
        now = moment(now_ms)
        try:
            with transaction.atomic():
                return Channel.objects.create(
                    **columns, created_by=by, created_at=now, updated_by=by, updated_at=now
                )
        except IntegrityError as error:
            raise ProblemError(
                "conflict", sentence("there is a channel %(name)s already", name=repr(terms.name))
            ) from error


def change_channel(
    *, channel_id: int, terms: ChannelTerms, version: int, by: str, now_ms: int
) -> Channel:
    """Change a channel; what waits goes to the new address.

    Raises InvalidArgument, `not_found`, and `conflict` where it has another version or the name is
    another channel's.
    """
    with recorded(
        by=by, act="alert_channel.change", kind="alert channel", name=terms.name
    ) as entry:
        kept = Channel.objects.select_for_update().filter(pk=channel_id).first()
        if kept is None:
            raise ProblemError(
                "not_found", sentence("there is no channel %(channel_id)s", channel_id=channel_id)
            )
        columns = terms.columns(url_kept=kept.url)
        entry.before = _told({name: getattr(kept, name) for name in columns})
        # Two addresses of one host look the same without what may be a secret.
        entry.after = {**_told(columns), "has_another_address": columns["url"] != kept.url}
        try:
            with transaction.atomic():
                changed = Channel.objects.filter(pk=channel_id, version=version).update(
                    **columns, version=version + 1, updated_by=by, updated_at=moment(now_ms)
                )
        except IntegrityError as error:
            raise ProblemError(
                "conflict", sentence("there is a channel %(name)s already", name=repr(terms.name))
            ) from error
        if not changed:
            raise ProblemError(
                "conflict", sentence("somebody has changed the channel meanwhile: look again")
            )
        return Channel.objects.get(pk=channel_id)


def delete_channel(*, channel_id: int, by: str) -> None:
    """Delete a channel with all it was told or is to be told. Raises `not_found`."""
    with recorded(
        by=by, act="alert_channel.delete", kind="alert channel", name=str(channel_id)
    ) as entry:
        locked_watch()
        found = Channel.objects.select_for_update().filter(pk=channel_id).first()
        if found is None:
            raise ProblemError(
                "not_found", sentence("there is no channel %(channel_id)s", channel_id=channel_id)
            )
        entry.name = found.name
        entry.before = _told({name: getattr(found, name) for name in _COLUMNS})
        found.delete()


def try_channel(*, channel_id: int, by: str, now_ms: int) -> Notification:
    """Have a channel be told something to see whether it works, also a disabled one.

    Raises `not_found`.
    """
    with recorded(
        by=by, act="alert_channel.test", kind="alert channel", name=str(channel_id)
    ) as entry:
        channel = Channel.objects.filter(pk=channel_id).first()
        if channel is None:
            raise ProblemError(
                "not_found", sentence("there is no channel %(channel_id)s", channel_id=channel_id)
            )
        now = moment(now_ms)
        made = Notification.objects.create(
            channel=channel,
            facts=telling.trial_facts(channel, by=by, now_ms=now_ms),
            next_at=now,
            created_at=now,
        )
        entry.name = channel.name
        entry.after = {"notification": made.pk}
        return made


def _told(columns: Mapping[str, object]) -> Mapping[str, object]:
    """Return what a channel is, as the audit log keeps it: without what may be a secret."""
    url = str(columns["url"])
    return {**columns, "url": shown(url) if url else ""}


def _check_url(url: str) -> None:
    if not url or len(url) > URL_CHARACTERS_MAX:
        raise InvalidArgument(
            sentence(
                "an address has 1 to %(url_characters_max)s characters",
                url_characters_max=URL_CHARACTERS_MAX,
            )
        )
    try:
        parsed(url, policy.configured())
    except RefusedTarget as refusal:
        raise InvalidArgument(str(refusal)) from refusal


def _check_recipients(recipients: tuple[str, ...]) -> None:
    if not 1 <= len(recipients) <= RECIPIENTS_MAX:
        raise InvalidArgument(
            sentence(
                "mail goes to 1 to %(recipients_max)s recipients", recipients_max=RECIPIENTS_MAX
            )
        )
    for recipient in recipients:
        try:
            validate_email(recipient)
        except ValidationError as error:
            raise InvalidArgument(
                sentence("%(recipient)s is no address of mail", recipient=repr(recipient))
            ) from error
