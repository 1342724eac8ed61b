"""Rows of any model, made from what its fields say; where rules join fields, by hand."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import models

from apps.pipelines.models import PipelineRun

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)

# What the rules of a model want of fields together, by label; `n` counts its rows.
_BY_HAND: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "auth.User": lambda n: {"username": f"user-{n}", "password": "!"},
    "access.ApiToken": lambda n: {"digest": f"{n:064x}"},
    "access.SecondFactor": lambda _: {"confirmed_at": BEGIN},
    "access.Grant": lambda n: {"name": f"topic-{n}"},
    "alerts.AlertRule": lambda n: {"scope": "any", "subject": ""},
    "alerts.Channel": lambda n: {"kind": "webhook", "url": f"https://example.org/{n}"},
    "alerts.Silence": lambda n: {
        "scope": "any",
        "subject": "",
        "starts_at": BEGIN,
        "ends_at": BEGIN + timedelta(hours=1),
    },
    "alerts.Watch": lambda n: {"id": 1},
    "groups.QueueLock": lambda n: {"state": "held", "owner": f"owner-{n}"},
    "metrics.TopicSample": lambda n: {"resolution_s": 5},
    "metrics.GroupSample": lambda n: {"resolution_s": 5},
    "metrics.StoreSample": lambda n: {"resolution_s": 5},
    "pipelines.ArchivedSegment": lambda n: {"first_log_offset": n, "end_log_offset": n + 1},
    "pipelines.LakeFile": lambda n: {"run": made(PipelineRun, n + 1_000)},
    "pipelines.PipelineRun": lambda n: {"window_end": BEGIN + timedelta(days=1, minutes=n)},
}


def made(model: type[models.Model], number: int) -> models.Model:
    """Make the row of a number, and rows it refers to; of an account that is there, that one."""
    if model is User and (known := User.objects.filter(username=f"user-{number}").first()):
        return known
    values = {
        field.name: _value(field, number)
        for field in model._meta.concrete_fields
        if not _is_left_out(field)
    }
    by_hand = _BY_HAND.get(model._meta.label)
    if by_hand is not None:
        values |= by_hand(number)
    return model._default_manager.create(**values)


def _is_left_out(field: Any) -> bool:
    if isinstance(field, models.AutoField) or field.generated:
        return True
    has_value = field.has_default() or field.db_default is not models.NOT_PROVIDED
    return field.null or (not field.unique and (field.blank or has_value))


def _value(field: Any, number: int) -> Any:
    if isinstance(field, models.ForeignKey):
        return made(field.related_model, number + 1_000)
    if field.choices:
        return field.choices[0][0]
    if isinstance(field, models.DateTimeField):
        return BEGIN + timedelta(minutes=number)
    if isinstance(field, models.DateField):
        return BEGIN.date()
    if isinstance(field, models.BooleanField):
        return False
    if isinstance(field, models.FloatField | models.DecimalField):
        return 1.0
    if isinstance(field, models.IntegerField):
        return number + 1
    if isinstance(field, models.JSONField):
        return []
    if isinstance(field, models.BinaryField):
        return b"%032d" % number
    return f"{field.name}-{number}"[: field.max_length]
