"""What every row of a result has. Knows runs, no particular result."""

from typing import TYPE_CHECKING

from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.groups.models import fields
from apps.pipelines.models.runs import PipelineRun

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

TEXT_CHARACTERS_MAX = 255


class Result(models.Model):
    """A row that one run found out. Rows of a run that was replaced are deleted with it."""

    run = models.ForeignKey(
        PipelineRun, verbose_name=_("run"), on_delete=models.CASCADE, related_name="+"
    )

    class Meta:
        abstract = True
        ordering = ["id"]

    def __str__(self) -> str:
        """Return the table and the run."""
        return gettext("%(result)s of run %(number)s") % {
            "result": self._meta.verbose_name,
            "number": self.run_id,
        }


def text(
    verbose_name: "StrOrPromise", *, null: bool = False
) -> "models.CharField[str | None, str | None]":
    """Return a column for a text, compared byte by byte; longer ones are cut before they come."""
    return models.CharField(
        verbose_name, max_length=TEXT_CHARACTERS_MAX, db_collation="C", blank=True, null=null
    )


def group(verbose_name: "StrOrPromise") -> "models.CharField[str, str]":
    """Return a column for a group's name, empty for what concerns no group."""
    found = fields.name(verbose_name)
    found.blank = True
    return found
