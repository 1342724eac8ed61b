"""Jobs that send dead letters again. Rows and constraints.

A job's letters are those whose `job` it is: claimed when it is made, sent by bounded steps.
"""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.deadletters.models.letters import TEXT_CHARACTERS_MAX
from apps.engine.failuretypes import Resend
from apps.groups.models import fields

# Faster than this is as fast as it goes.
RATE_MAX = 100_000


class JobState(models.TextChoices):
    """Where a job is."""

    QUEUED = "queued", pgettext_lazy("state", "queued")
    RUNNING = "running", pgettext_lazy("state", "running")
    DONE = "done", pgettext_lazy("state", "done")
    CANCELLED = "cancelled", pgettext_lazy("state", "cancelled")
    FAILED = "failed", pgettext_lazy("state", "failed")


ACTIVE = (JobState.QUEUED, JobState.RUNNING)
ENDED = (JobState.DONE, JobState.CANCELLED, JobState.FAILED)


class Outcome(models.TextChoices):
    """What came in the way of a letter."""

    FAILED = Resend.FAILED.value, pgettext_lazy("state", "failed")
    GONE = Resend.GONE.value, pgettext_lazy("state", "gone")


class ResendJob(models.Model):
    """One request to send dead letters of a group again; with `dry_run` only to count them.

    `criteria` is what was asked for, as JSON. An empty `target` is each letter's own topic. `plan`
    is a list of `{"topic", "count", "trouble"}`: where letters go, or would go. `paced_at` is up
    to when the rate is used up. `error` is why the job does not get on, or has failed.
    """

    group = fields.name(_("group"))
    target = models.CharField(_("target"), max_length=TEXT_CHARACTERS_MAX, blank=True)
    criteria = models.JSONField(_("criteria"))
    rate_per_s = models.PositiveIntegerField(_("messages a second, at most"), null=True)
    dry_run = models.BooleanField(_("dry run"), default=False)
    plan = models.JSONField(_("plan"), default=list)
    state = models.CharField(_("state"), max_length=12, choices=JobState, default=JobState.QUEUED)
    total = models.PositiveBigIntegerField(_("letters in all"), default=0)
    sent_count = models.PositiveBigIntegerField(_("letters sent"), default=0)
    already_count = models.PositiveBigIntegerField(_("sent before"), default=0)
    gone_count = models.PositiveBigIntegerField(_("letters gone"), default=0)
    failed_count = models.PositiveBigIntegerField(_("failed letters"), default=0)
    returned_count = models.PositiveBigIntegerField(_("letters given back"), default=0)
    error = fields.reason(_("error"))
    created_by = models.CharField(_("created by"), max_length=TEXT_CHARACTERS_MAX)
    created_at = models.DateTimeField(_("created at"))
    started_at = models.DateTimeField(_("started at"), null=True)
    ended_at = models.DateTimeField(_("ended at"), null=True)
    paced_at = models.DateTimeField(_("paced up to"), null=True)
    cancel_requested = models.BooleanField(_("cancellation asked for"), default=False)
    cancelled_by = models.CharField(_("cancelled by"), max_length=TEXT_CHARACTERS_MAX, blank=True)

    class Meta:
        ordering = ["-id"]
        verbose_name = _("resend job")
        verbose_name_plural = _("resend jobs")
        constraints = [
            models.CheckConstraint(condition=Q(state__in=JobState.values), name="job_state_known"),
            models.CheckConstraint(
                condition=Q(rate_per_s=None) | Q(rate_per_s__gte=1, rate_per_s__lte=RATE_MAX),
                name="job_rate_in_range",
            ),
            models.CheckConstraint(
                condition=Q(
                    total__gte=F("sent_count")
                    + F("already_count")
                    + F("gone_count")
                    + F("failed_count")
                    + F("returned_count")
                ),
                name="job_counts_each_letter_once",
            ),
            models.CheckConstraint(
                condition=Q(state__in=ACTIVE) ^ Q(ended_at__isnull=False), name="job_ends_once"
            ),
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(state__in=ACTIVE), name="job_active"),
            models.Index(fields=["group", "-id"], name="job_by_group"),
        ]

    def __str__(self) -> str:
        """Return the number and the group."""
        return gettext("job %(number)s of %(group)s") % {"number": self.pk, "group": self.group}

    @property
    def done_count(self) -> int:
        """Return how many letters the job is done with, whatever came of them."""
        return (
            self.sent_count
            + self.already_count
            + self.gone_count
            + self.failed_count
            + self.returned_count
        )

    @property
    def is_active(self) -> bool:
        """Say whether it still has something to do."""
        return self.state in ACTIVE


class ResendTrouble(models.Model):
    """A letter that a job could not send, and why. Letters that were sent say so themselves."""

    job = models.ForeignKey(
        ResendJob, verbose_name=_("job"), on_delete=models.CASCADE, related_name="troubles"
    )
    letter = models.ForeignKey(
        "deadletters.DeadLetter",
        verbose_name=_("dead letter"),
        on_delete=models.CASCADE,
        related_name="troubles",
    )
    outcome = models.CharField(_("outcome"), max_length=8, choices=Outcome)
    detail = fields.reason(_("detail"))
    at = models.DateTimeField(_("time"))

    class Meta:
        ordering = ["id"]
        verbose_name = _("letter not sent again")
        verbose_name_plural = _("letters not sent again")
        constraints = [
            models.UniqueConstraint(fields=["job", "letter"], name="trouble_once_a_letter"),
            models.CheckConstraint(
                condition=Q(outcome__in=Outcome.values), name="trouble_outcome_is_known"
            ),
        ]

    def __str__(self) -> str:
        """Return letter and job."""
        return gettext("%(letter)s in %(job)s") % {"letter": self.letter, "job": self.job}
