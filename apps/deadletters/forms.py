"""Forms of the admin and of the console: where letters go, how fast, or why nobody wants them."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from apps.deadletters.models.jobs import RATE_MAX
from apps.deadletters.records import retry_topic_of
from apps.deadletters.services import Wish
from apps.engine import limits
from apps.groups.models.fields import REASON_CHARACTERS_MAX

ORIGIN, GROUP, TOPIC = "origin", "group", "topic"


class ResendForm(forms.Form):
    """Where letters go, and how fast."""

    where = forms.ChoiceField(
        choices=[
            (ORIGIN, _("each to the topic it comes from")),
            (GROUP, _("to this group only")),
            (TOPIC, _("to another topic")),
        ],
        initial=ORIGIN,
        label=_("Where to"),
    )
    topic = forms.CharField(
        max_length=limits.NAME_CHARACTERS_MAX, required=False, label=_("Other topic")
    )
    rate_per_s = forms.IntegerField(
        min_value=1, max_value=RATE_MAX, required=False, label=_("At most a second")
    )
    dry_run = forms.BooleanField(required=False, label=_("Dry run: count, and change nothing"))

    def clean(self) -> dict[str, Any]:
        """Return all values; refuse another topic without its name."""
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("where") == TOPIC and not cleaned.get("topic"):
            raise ValidationError(_("another topic needs a name"))
        return cleaned

    def wish(self, group: str) -> Wish:
        """Return what was entered, for letters of a group."""
        given = self.cleaned_data
        targets = {ORIGIN: None, GROUP: retry_topic_of(group), TOPIC: given["topic"]}
        return Wish(
            target=targets[given["where"]],
            rate_per_s=given["rate_per_s"],
            dry_run=given["dry_run"],
        )


class DiscardForm(forms.Form):
    """Why nobody wants letters any more."""

    reason = forms.CharField(label=_("Reason"), max_length=REASON_CHARACTERS_MAX)
