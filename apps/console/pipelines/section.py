"""A section of a page of results: plots, a table beneath, and where the whole of it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from apps.console.pipelines.tables import Table
from apps.console.plots import Plot

ROWS_SHOWN = 50
# One more is asked for, so that a page knows whether there are more.
ROWS_ASKED = ROWS_SHOWN + 1


def cut_at(drawn_max: int, count: int) -> str:
    """Return what is said beneath a plot of the first of several; empty where it shows all."""
    if count <= drawn_max:
        return ""
    return _("Only the first %(count)s are drawn.") % {"count": drawn_max}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number that says the most; `level` is how bad it is, for the stylesheet."""

    name: str
    value: str
    note: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One finding of a job. `source` is the table of the lake that it is of."""

    name: str
    title: str
    table: Table
    empty: str
    plots: Sequence[Plot] = ()
    source: str = ""
    note: str = ""
    cut: str = ""
    """What the plots leave out; empty where they show all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All that a job found out, for a page."""

    sections: Sequence[Section]
    figures: Sequence[Figure] = ()
