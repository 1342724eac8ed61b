"""Jobs, as they are asked for and answered."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from apps.core.moments import moment
from apps.core.pagination import rfc3339, rfc3339_or_none
from apps.core.serializers import (
    StrictBooleanField,
    StrictChoiceField,
    StrictIntegerField,
    StrictSerializer,
    StrictTextField,
)
from apps.deadletters.asked import TEXT_CHARACTERS_MAX, number_of
from apps.deadletters.filters import IDS_MAX, LetterFilter, letters_by_id, without_contents
from apps.deadletters.models import DeadLetter, JobState, ResendJob, ResendTrouble, State
from apps.deadletters.models.jobs import RATE_MAX, Outcome
from apps.deadletters.services import Wish
from apps.engine import limits
from apps.groups.api.serializers.settings import TimeField
from apps.groups.models.fields import REASON_CHARACTERS_MAX


class FilterRequest(StrictSerializer):
    """Which letters are meant; all conditions hold."""

    state = StrictChoiceField(State.values, required=False)
    origin_topic = StrictTextField(required=False, max_length=TEXT_CHARACTERS_MAX)
    key = StrictTextField(required=False, max_length=TEXT_CHARACTERS_MAX)
    message_id = StrictTextField(required=False, max_length=TEXT_CHARACTERS_MAX)
    reason = StrictTextField(
        required=False, max_length=TEXT_CHARACTERS_MAX, help_text="A part of it, in any case."
    )

    def get_fields(self) -> Any:
        """Return the fields; the names of two of them are words of the language."""
        times = {
            "from": TimeField(required=False, help_text="The first moment of dying meant."),
            "to": TimeField(required=False, help_text="The first one not meant any more."),
        }
        return {**super().get_fields(), **times}


class LettersRequest(StrictSerializer):
    """Exactly one of `ids`, `filter` and `all`."""

    ids = serializers.ListField(
        child=StrictTextField(max_length=20), required=False, min_length=1, max_length=IDS_MAX
    )
    filter = FilterRequest(required=False)
    all = StrictBooleanField(required=False)

    def validate(self, attrs: Any) -> Any:
        """Refuse none and several of them."""
        named = [name for name in ("ids", "filter") if name in attrs]
        if attrs.get("all"):
            named.append("all")
        if len(named) != 1:
            raise serializers.ValidationError("give exactly one of ids, filter and all: true")
        return attrs

    def letters(self, group: str) -> QuerySet[DeadLetter]:
        """Return the letters that are meant."""
        given = self.validated_data
        if "ids" in given:
            return letters_by_id(group, [number_of(text) for text in given["ids"]])
        return self._filter().letters(group)

    def criteria(self) -> dict[str, Any]:
        """Return what was asked for, for a job to keep."""
        given = self.validated_data
        if "ids" in given:
            return {"ids": list(given["ids"])}
        if "filter" in given:
            return {"filter": dict(self._filter().criteria())}
        return {"all": True}

    def _filter(self) -> LetterFilter:
        given = self.validated_data.get("filter", {})
        first_ms, end_ms = given.get("from"), given.get("to")
        return LetterFilter(
            state=State(given["state"]) if "state" in given else None,
            origin_topic=given.get("origin_topic"),
            key=given.get("key"),
            message_id=given.get("message_id"),
            first_at=None if first_ms is None else moment(first_ms),
            end_at=None if end_ms is None else moment(end_ms),
            reason=given.get("reason"),
        )


class ResendRequest(LettersRequest):
    """Which letters to send again, where to and how fast."""

    topic = StrictTextField(
        required=False,
        allow_null=True,
        max_length=2 * limits.NAME_CHARACTERS_MAX,
        help_text="Null is each letter's own; `%RETRY%group` gives them to this group only.",
    )
    rate_per_s = StrictIntegerField(
        required=False, allow_null=True, min_value=1, max_value=RATE_MAX
    )
    dry_run = StrictBooleanField(required=False, help_text="Count, and change nothing.")

    def wish(self) -> Wish:
        """Return how they are to be sent."""
        given = self.validated_data
        return Wish(
            target=given.get("topic"),
            rate_per_s=given.get("rate_per_s"),
            dry_run=given.get("dry_run", False),
        )


class DiscardRequest(LettersRequest):
    """Which letters nobody wants any more, and why."""

    reason = StrictTextField(max_length=REASON_CHARACTERS_MAX)


class DiscardDocument(serializers.Serializer[Any]):
    """What a discard did."""

    discarded = serializers.IntegerField()


class PlanLineDocument(serializers.Serializer[Any]):
    """Where letters go."""

    topic = serializers.CharField()
    count = serializers.IntegerField()
    trouble = serializers.CharField(help_text="What is in the way; empty for nothing.")


class TroubleDocument(serializers.Serializer[Any]):
    """A letter that could not be sent."""

    letter_id = serializers.CharField()
    offset = serializers.CharField()
    outcome = serializers.ChoiceField(Outcome.choices)
    detail = serializers.CharField()
    at = serializers.DateTimeField()


class JobDocument(serializers.Serializer[Any]):
    """A job; a dry run has a plan and counts nothing."""

    id = serializers.CharField()
    kind = serializers.ChoiceField(["resend"])
    group = serializers.CharField()
    topic = serializers.CharField(allow_null=True)
    criteria = serializers.DictField(
        help_text="What was asked for; a key and a reason are null for who may not peek."
    )
    rate_per_s = serializers.IntegerField(allow_null=True)
    dry_run = serializers.BooleanField()
    plan = PlanLineDocument(many=True)
    state = serializers.ChoiceField(JobState.choices)
    total = serializers.IntegerField()
    sent = serializers.IntegerField()
    already = serializers.IntegerField(help_text="Sent before; they are not sent twice.")
    gone = serializers.IntegerField()
    failed = serializers.IntegerField()
    returned = serializers.IntegerField(help_text="Given back unsent: they wait again.")
    error = serializers.CharField(help_text="Why it does not get on, or has failed.")
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    cancel_requested = serializers.BooleanField()
    cancelled_by = serializers.CharField(allow_null=True)


class WholeJobDocument(JobDocument):
    """A job with the letters it could not send."""

    errors = TroubleDocument(many=True, help_text="The first 100.")  # type: ignore[assignment]


class JobList(serializers.Serializer[Any]):
    """A page of jobs, the newest first."""

    items = JobDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


def rendered_job(job: ResendJob, *, peeks: bool) -> dict[str, object]:
    """Build the JSON shape of a job, for who `peeks` with the key that was asked for."""
    return {
        "id": str(job.pk),
        "kind": "resend",
        "group": job.group,
        "topic": job.target or None,
        "criteria": job.criteria if peeks else without_contents(job.criteria),
        "rate_per_s": job.rate_per_s,
        "dry_run": job.dry_run,
        "plan": job.plan,
        "state": job.state,
        "total": job.total,
        "sent": job.sent_count,
        "already": job.already_count,
        "gone": job.gone_count,
        "failed": job.failed_count,
        "returned": job.returned_count,
        "error": job.error,
        "created_by": job.created_by,
        "created_at": rfc3339(job.created_at),
        "started_at": rfc3339_or_none(job.started_at),
        "ended_at": rfc3339_or_none(job.ended_at),
        "cancel_requested": job.cancel_requested,
        "cancelled_by": job.cancelled_by or None,
    }


def rendered_troubles(troubles: Sequence[ResendTrouble]) -> list[dict[str, object]]:
    """Build the JSON shape of letters that could not be sent."""
    return [
        {
            "letter_id": str(trouble.letter_id),
            "offset": str(trouble.letter.queue_offset),
            "outcome": trouble.outcome,
            "detail": trouble.detail,
            "at": rfc3339(trouble.at),
        }
        for trouble in troubles
    ]
