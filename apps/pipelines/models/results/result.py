"""What every row of a result has. Knows runs, no particular result."""

from django.db import models

from apps.groups.models import fields
from apps.pipelines.models.runs import PipelineRun

TEXT_CHARACTERS_MAX = 255


class Result(models.Model):
    """A row that one run found out. Rows of a run that was replaced are deleted with it."""

    run = models.ForeignKey(PipelineRun, on_delete=models.CASCADE, related_name="+")

    class Meta:
        abstract = True
        ordering = ["id"]

    def __str__(self) -> str:
        """Return the table and the run."""
        return f"{self._meta.verbose_name} of run {self.run_id}"


def text(*, null: bool = False) -> "models.CharField[str | None, str | None]":
    """Return a column for a text, compared byte by byte; longer ones are cut before they come."""
    return models.CharField(max_length=TEXT_CHARACTERS_MAX, db_collation="C", blank=True, null=null)


def group() -> "models.CharField[str, str]":
    """Return a column for a group's name, empty for what concerns no group."""
    found = fields.name()
    found.blank = True
    return found
