"""Columns that several models of alerts have. Knows lengths and choices, no model."""

from collections.abc import Iterable

from django.db import models

from apps.alerts.kinds import KINDS, Kind, Scope, Severity
from apps.engine import limits

NAME_CHARACTERS_MAX = 100
TEXT_CHARACTERS_MAX = 500
ACTOR_CHARACTERS_MAX = 255
# A group's name, or a part of one.
SUBJECT_CHARACTERS_MAX = limits.NAME_CHARACTERS_MAX

KIND_CHOICES = [(kind.value, KINDS[kind].name) for kind in Kind]
SEVERITY_CHOICES = [(severity.value, severity.value) for severity in Severity]
SCOPE_CHOICES = [(scope.value, scope.value) for scope in Scope]


def kind(*, blank: bool = False) -> "models.CharField[str, str]":
    """Return a column for what an alert is about."""
    return models.CharField(max_length=16, choices=KIND_CHOICES, blank=blank)


def severity(*, default: Severity = Severity.WARNING) -> "models.CharField[str, str]":
    """Return a column for how much an alert matters."""
    return models.CharField(max_length=8, choices=SEVERITY_CHOICES, default=default.value)


def scope() -> "models.CharField[str, str]":
    """Return a column for which subjects are meant."""
    return models.CharField(max_length=6, choices=SCOPE_CHOICES, default=Scope.ANY.value)


def subject(*, blank: bool = False) -> "models.CharField[str, str]":
    """Return a column for a subject, or a part of its name."""
    return models.CharField(max_length=SUBJECT_CHARACTERS_MAX, blank=blank, db_collation="C")


def actor(*, blank: bool = False) -> "models.CharField[str, str]":
    """Return a column for who did something."""
    return models.CharField(max_length=ACTOR_CHARACTERS_MAX, blank=blank)


def text() -> "models.CharField[str, str]":
    """Return a column for a sentence."""
    return models.CharField(max_length=TEXT_CHARACTERS_MAX, blank=True)


def values(choices: Iterable[tuple[str, object]]) -> list[str]:
    """Return the values of choices, for a constraint."""
    return [value for value, _ in choices]
