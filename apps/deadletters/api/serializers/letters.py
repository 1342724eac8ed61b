"""Dead letters, as they are answered. Unknown is null; offsets travel as strings."""

from typing import Any

from rest_framework import serializers

from apps.core.moments import moment
from apps.core.pagination import rfc3339, rfc3339_or_none
from apps.deadletters.attempts import attempts_of
from apps.deadletters.models import DeadLetter, State
from apps.deadletters.selectors import Body

_HIDDEN = "Null for a caller who may not peek into the group."


class AttemptDocument(serializers.Serializer[Any]):
    """One failed attempt."""

    number = serializers.IntegerField()
    at = serializers.DateTimeField()
    reason = serializers.CharField(allow_null=True, help_text=_HIDDEN)
    client_id = serializers.CharField()


class LetterDocument(serializers.Serializer[Any]):
    """A dead letter without its body."""

    id = serializers.CharField()
    group = serializers.CharField()
    offset = serializers.CharField(help_text="In queue 0 of `%DLQ%group`.")
    state = serializers.ChoiceField(State.choices)
    origin_topic = serializers.CharField(allow_null=True)
    origin_queue = serializers.IntegerField(allow_null=True)
    origin_offset = serializers.CharField(allow_null=True)
    message_id = serializers.CharField()
    keys = serializers.ListField(child=serializers.CharField(), allow_null=True, help_text=_HIDDEN)
    tag = serializers.CharField(allow_null=True)
    attempt_count = serializers.IntegerField(help_text="Attempts, all of which failed.")
    reason = serializers.CharField(allow_null=True, help_text=f"Of the last attempt. {_HIDDEN}")
    attempts = AttemptDocument(many=True)
    first_failed_at = serializers.DateTimeField(allow_null=True)
    dead_at = serializers.DateTimeField()
    size_bytes = serializers.IntegerField()
    job_id = serializers.CharField(allow_null=True)
    trouble = serializers.CharField(help_text="Why it could not be sent again the last time.")
    resent_at = serializers.DateTimeField(allow_null=True)
    resent_topic = serializers.CharField(allow_null=True)
    resent_queue = serializers.IntegerField(allow_null=True)
    resent_offset = serializers.CharField(allow_null=True)
    discarded_at = serializers.DateTimeField(allow_null=True)
    discarded_by = serializers.CharField(allow_null=True)
    discard_reason = serializers.CharField(allow_null=True)


class WholeLetterDocument(LetterDocument):
    """A dead letter with what the log has of it; null where the log has it no more."""

    body = serializers.CharField(allow_null=True, help_text="Null where it is not UTF-8.")
    body_base64 = serializers.CharField(allow_null=True, help_text="Where it is not UTF-8.")
    properties = serializers.DictField(child=serializers.CharField(), allow_null=True)
    born_time = serializers.DateTimeField(allow_null=True)


class LetterList(serializers.Serializer[Any]):
    """A page of dead letters, the newest first."""

    items = LetterDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


def rendered_letter(letter: DeadLetter, *, peeks: bool = True) -> dict[str, object]:
    """Build the JSON shape of a dead letter, for who `peeks` with keys and reasons."""
    return {
        "id": str(letter.pk),
        "group": letter.group,
        "offset": str(letter.queue_offset),
        "state": letter.state,
        "origin_topic": letter.origin_topic or None,
        "origin_queue": letter.origin_queue,
        "origin_offset": _offset(letter.origin_offset),
        "message_id": letter.message_id,
        "keys": letter.keys.split() if peeks else None,
        "tag": letter.tag or None,
        "attempt_count": letter.attempts,
        "reason": letter.reason if peeks else None,
        "attempts": attempts_of(letter, peeks=peeks),
        "first_failed_at": rfc3339_or_none(letter.first_failed_at),
        "dead_at": rfc3339(letter.dead_at),
        "size_bytes": letter.size_bytes,
        "job_id": None if letter.job_id is None else str(letter.job_id),
        "trouble": letter.trouble,
        "resent_at": rfc3339_or_none(letter.resent_at),
        "resent_topic": letter.resent_topic or None,
        "resent_queue": letter.resent_queue,
        "resent_offset": _offset(letter.resent_offset),
        "discarded_at": rfc3339_or_none(letter.discarded_at),
        "discarded_by": letter.discarded_by or None,
        "discard_reason": letter.discard_reason or None,
    }


def rendered_body(body: Body | None) -> dict[str, object]:
    """Build the part of the JSON shape that comes from the log."""
    if body is None:
        return {"body": None, "body_base64": None, "properties": None, "born_time": None}
    text = body.text
    return {
        "body": text,
        "body_base64": body.base64 if text is None else None,
        "properties": dict(body.properties),
        "born_time": _born(body.born_time_ms),
    }


def _offset(offset: int | None) -> str | None:
    return None if offset is None else str(offset)


def _born(time_ms: int) -> str | None:
    """Return when a producer says it made a message; None for no time there can be."""
    try:
        return rfc3339(moment(time_ms))
    except OverflowError:
        return None
