"""Columns that several models of groups have. Knows lengths and collations, no model.

Names are compared byte by byte, as the engine does, whatever the database's language is.
"""

from typing import TYPE_CHECKING

from django.db import models

from apps.engine import limits
from apps.engine.codec.layout import RETRY_PREFIX

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

# A group of the longest name has a retry topic, too.
TOPIC_CHARACTERS_MAX = limits.NAME_CHARACTERS_MAX + len(RETRY_PREFIX)

# The engine's own texts; longer ones are cut.
REASON_CHARACTERS_MAX = 500


def name(verbose_name: "StrOrPromise") -> "models.CharField[str, str]":
    """Return a column for the name of a group."""
    return models.CharField(verbose_name, max_length=limits.NAME_CHARACTERS_MAX, db_collation="C")


def topic(verbose_name: "StrOrPromise") -> "models.CharField[str, str]":
    """Return a column for the name of a topic that a group reads, which may be its retry topic."""
    return models.CharField(verbose_name, max_length=TOPIC_CHARACTERS_MAX, db_collation="C")


def client_id(verbose_name: "StrOrPromise", *, blank: bool = False) -> "models.CharField[str, str]":
    """Return a column for a client id."""
    return models.CharField(
        verbose_name, max_length=limits.CLIENT_ID_CHARACTERS_MAX, db_collation="C", blank=blank
    )


def reason(verbose_name: "StrOrPromise") -> "models.CharField[str, str]":
    """Return a column for a sentence that says why."""
    return models.CharField(verbose_name, max_length=REASON_CHARACTERS_MAX, blank=True)
