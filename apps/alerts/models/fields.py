"""Columns that several models of alerts have. Knows lengths and choices, no model."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.db import models
from django.utils.translation import pgettext_lazy

from apps.alerts.kinds import KINDS, Kind, Scope, Severity
from apps.engine import limits

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

NAME_CHARACTERS_MAX = 100
TEXT_CHARACTERS_MAX = 500
ACTOR_CHARACTERS_MAX = 255
# A group's name, or a part of one.
SUBJECT_CHARACTERS_MAX = limits.NAME_CHARACTERS_MAX

KIND_CHOICES = [(kind.value, KINDS[kind].name) for kind in Kind]
SEVERITY_CHOICES = [(name.value, pgettext_lazy("severity", name.value)) for name in Severity]
SCOPE_CHOICES = [
    (Scope.ANY.value, pgettext_lazy("subjects", "any")),
    (Scope.PREFIX.value, pgettext_lazy("subjects", "whose names begin with")),
    (Scope.NAME.value, pgettext_lazy("subjects", "the one named")),
]


def kind(verbose_name: "StrOrPromise", *, blank: bool = False) -> "models.CharField[str, str]":
    """Return a column for what an alert is about."""
    return models.CharField(verbose_name, max_length=16, choices=KIND_CHOICES, blank=blank)


def severity(
    verbose_name: "StrOrPromise", *, default: Severity = Severity.WARNING
) -> "models.CharField[str, str]":
    """Return a column for how much an alert matters."""
    return models.CharField(
        verbose_name, max_length=8, choices=SEVERITY_CHOICES, default=default.value
    )


def scope(verbose_name: "StrOrPromise") -> "models.CharField[str, str]":
    """Return a column for which subjects are meant."""
    return models.CharField(
        verbose_name, max_length=6, choices=SCOPE_CHOICES, default=Scope.ANY.value
    )


def subject(verbose_name: "StrOrPromise", *, blank: bool = False) -> "models.CharField[str, str]":
    """Return a column for a subject, or a part of its name."""
    return models.CharField(
        verbose_name, max_length=SUBJECT_CHARACTERS_MAX, blank=blank, db_collation="C"
    )


def actor(verbose_name: "StrOrPromise", *, blank: bool = False) -> "models.CharField[str, str]":
    """Return a column for who did something."""
    return models.CharField(verbose_name, max_length=ACTOR_CHARACTERS_MAX, blank=blank)


def text(verbose_name: "StrOrPromise") -> "models.CharField[str, str]":
    """Return a column for a sentence."""
    return models.CharField(verbose_name, max_length=TEXT_CHARACTERS_MAX, blank=True)


def values(choices: Iterable[tuple[str, object]]) -> list[str]:
    """Return the values of choices, for a constraint."""
    return [value for value, _ in choices]
