"""Which dead letters of a group are meant. Knows rows and values, no request."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from apps.core.pagination import rfc3339_or_none
from apps.deadletters.models import DeadLetter, State

# Letters that one request names one by one; more are named by a filter.
IDS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Conditions that all hold; None asks for nothing.

    `key` is one of the message's keys, whole. `first_at` is the first moment of dying that is
    meant, `end_at` the first that is not any more. `reason` is a part of it, in any case.
    """

    state: State | None = None
    origin_topic: str | None = None
    key: str | None = None
    message_id: str | None = None
    first_at: datetime | None = None
    end_at: datetime | None = None
    reason: str | None = None

    def letters(self, group: str) -> QuerySet[DeadLetter]:
        """Return the letters of a group that are meant, the newest first."""
        found = DeadLetter.objects.filter(group=group)
        if self.state is not None:
            found = found.filter(state=self.state)
        if self.origin_topic is not None:
            found = found.filter(origin_topic=self.origin_topic)
        if self.key is not None:
            found = found.filter(has_key(self.key))
        if self.message_id is not None:
            found = found.filter(message_id=self.message_id)
        if self.first_at is not None:
            found = found.filter(dead_at__gte=self.first_at)
        if self.end_at is not None:
            found = found.filter(dead_at__lt=self.end_at)
        if self.reason is not None:
            found = found.filter(reason__icontains=self.reason)
        return found.order_by("-id")

    def criteria(self) -> Mapping[str, str]:
        """Return the conditions as the API names them, for a job to keep."""
        said = {
            "state": self.state,
            "origin_topic": self.origin_topic,
            "key": self.key,
            "message_id": self.message_id,
            "from": rfc3339_or_none(self.first_at),
            "to": rfc3339_or_none(self.end_at),
            "reason": self.reason,
        }
        return {name: str(value) for name, value in said.items() if value is not None}


# What messages and consumers say; the rest of a filter says of messages when and where they are.
CONTENTS = ("key", "reason")


def without_contents(criteria: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was asked for, as the API names it, without what messages and consumers say."""
    if "filter" not in criteria:
        return dict(criteria)
    asked = criteria["filter"].items()
    return {
        **criteria,
        "filter": {name: None if name in CONTENTS else value for name, value in asked},
    }


def has_key(key: str) -> Q:
    """Return the condition that a message has a key: keys lie one after the other with spaces."""
    return (
        Q(keys=key)
        | Q(keys__startswith=f"{key} ")
        | Q(keys__endswith=f" {key}")
        | Q(keys__contains=f" {key} ")
    )


def letters_by_id(group: str, ids: list[int]) -> QuerySet[DeadLetter]:
    """Return the letters of a group that are named; those of other groups are not among them."""
    return DeadLetter.objects.filter(group=group, pk__in=ids)
