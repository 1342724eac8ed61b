"""Forms of the console: rules, silences and channels as a person enters them."""

from datetime import timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.alerts.kinds import THRESHOLD_MAX, Scope, Severity
from apps.alerts.models import AlertRule, Channel, ChannelKind
from apps.alerts.models.channels import RATE_PER_MIN_MAX, URL_CHARACTERS_MAX
from apps.alerts.models.fields import (
    KIND_CHOICES,
    NAME_CHARACTERS_MAX,
    SUBJECT_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
)
from apps.alerts.models.rules import PENDING_S_MAX
from apps.alerts.services import ChannelTerms, RuleTerms, SilenceTerms
from apps.core.moments import moment, ms_of

_SCOPES = [
    (Scope.ANY.value, _("every group, or the broker")),
    (Scope.PREFIX.value, _("groups whose name begins with")),
    (Scope.NAME.value, _("the group named")),
]
# Labels of their own: those of the columns are for the admin.
_SEVERITIES = [
    (Severity.INFO.value, pgettext_lazy("severity", "info")),
    (Severity.WARNING.value, pgettext_lazy("severity", "warning")),
    (Severity.CRITICAL.value, pgettext_lazy("severity", "critical")),
]
_CHANNELS = [
    (ChannelKind.WEBHOOK.value, _("webhook: a JSON document")),
    (ChannelKind.DINGTALK.value, _("DingTalk robot")),
    (ChannelKind.SLACK.value, _("Slack webhook")),
    (ChannelKind.MAIL.value, _("mail")),
]
_TIME = "%Y-%m-%dT%H:%M"


class RuleForm(forms.Form):
    """A rule."""

    name = forms.CharField(max_length=NAME_CHARACTERS_MAX, label=_("Name"))
    kind = forms.ChoiceField(choices=KIND_CHOICES, label=_("Looks at"))
    threshold = forms.FloatField(
        min_value=0,
        max_value=THRESHOLD_MAX,
        label=_("Fires from"),
        help_text=_("In the unit of what it looks at."),
    )
    pending_s = forms.IntegerField(
        min_value=0,
        max_value=PENDING_S_MAX,
        initial=60,
        label=_("When it lasts"),
        help_text=_("Seconds."),
    )
    severity = forms.ChoiceField(
        choices=_SEVERITIES, initial=Severity.WARNING.value, label=_("Severity")
    )
    scope = forms.ChoiceField(choices=_SCOPES, label=_("For"))
    subject = forms.CharField(
        max_length=SUBJECT_CHARACTERS_MAX,
        required=False,
        strip=False,
        label=_("Name or its beginning"),
    )
    enabled = forms.BooleanField(required=False, initial=True, label=_("Enabled"))
    version = forms.IntegerField(required=False, min_value=1, widget=forms.HiddenInput)

    def terms(self) -> RuleTerms:
        """Return what was entered."""
        given = {name: self.cleaned_data[name] for name in self.fields if name != "version"}
        return RuleTerms(**given)


def rule_values(rule: AlertRule) -> dict[str, object]:
    """Return a rule as its form begins with it."""
    return {name: getattr(rule, name) for name in RuleForm.base_fields}


class SilenceForm(forms.Form):
    """A silence: from now or a moment on, for a time or up to a moment."""

    kind = forms.ChoiceField(
        choices=[("", _("any alert")), *KIND_CHOICES], required=False, label=_("Silence")
    )
    scope = forms.ChoiceField(choices=_SCOPES, label=_("For"))
    subject = forms.CharField(
        max_length=SUBJECT_CHARACTERS_MAX,
        required=False,
        strip=False,
        label=_("Name or its beginning"),
    )
    starts_at = forms.DateTimeField(
        required=False,
        input_formats=[_TIME, "%Y-%m-%dT%H:%M:%S"],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format=_TIME),
        label=_("From"),
        help_text=_("Empty is now."),
    )
    minutes = forms.TypedChoiceField(
        coerce=int,
        choices=[
            (30, _("30 minutes")),
            (60, _("1 hour")),
            (240, _("4 hours")),
            (1440, _("1 day")),
            (10080, _("7 days")),
        ],
        initial=60,
        label=_("For as long as"),
    )
    ends_at = forms.DateTimeField(
        required=False,
        input_formats=[_TIME, "%Y-%m-%dT%H:%M:%S"],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format=_TIME),
        label=_("Or until"),
    )
    reason = forms.CharField(max_length=TEXT_CHARACTERS_MAX, label=_("Why"))

    def terms(self, *, now_ms: int) -> SilenceTerms:
        """Return what was entered."""
        given = self.cleaned_data
        starts = given["starts_at"]
        starts = moment(now_ms) if starts is None else starts
        ends = given["ends_at"]
        ends = starts + timedelta(minutes=given["minutes"]) if ends is None else ends
        return SilenceTerms(
            kind=given["kind"],
            scope=given["scope"],
            subject=given["subject"],
            starts_ms=ms_of(starts),
            ends_ms=ms_of(ends),
            reason=given["reason"],
        )


class ChannelForm(forms.Form):
    """A channel; an address that is left empty stays what it is."""

    name = forms.CharField(max_length=NAME_CHARACTERS_MAX, label=_("Name"))
    kind = forms.ChoiceField(choices=_CHANNELS, label=_("Kind"))
    url = forms.CharField(
        max_length=URL_CHARACTERS_MAX,
        required=False,
        label=_("Address to post to"),
        help_text=_("Empty keeps the one that is there."),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    recipients = forms.CharField(
        required=False,
        max_length=5_000,
        label=_("Recipients of mail"),
        help_text=_("By comma."),
    )
    severity_min = forms.ChoiceField(
        choices=_SEVERITIES, initial=Severity.INFO.value, label=_("Told from")
    )
    rate_per_min = forms.IntegerField(
        min_value=1, max_value=RATE_PER_MIN_MAX, initial=30, label=_("At most a minute")
    )
    tells_end = forms.BooleanField(required=False, initial=True, label=_("Tell the end, too"))
    enabled = forms.BooleanField(required=False, initial=True, label=_("Enabled"))
    version = forms.IntegerField(required=False, min_value=1, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        """Return all values; refuse a mail without recipients."""
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("kind") == ChannelKind.MAIL and not cleaned.get("recipients", "").strip():
            raise ValidationError(_("mail needs recipients"))
        return cleaned

    def terms(self) -> ChannelTerms:
        """Return what was entered."""
        given = {name: self.cleaned_data[name] for name in self.fields if name != "version"}
        recipients = tuple(word.strip() for word in given["recipients"].split(",") if word.strip())
        return ChannelTerms(**{**given, "recipients": recipients})


def channel_values(channel: Channel) -> dict[str, object]:
    """Return a channel as its form begins with it, without its address."""
    values = {name: getattr(channel, name) for name in ChannelForm.base_fields}
    return {**values, "url": "", "recipients": ", ".join(channel.recipients)}
