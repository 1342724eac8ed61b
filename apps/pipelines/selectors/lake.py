"""Which files a table of the lake is at this moment. Knows the manifest alone: never lists a
directory, since what lies there and is not in the manifest is nobody's.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path

from django.db.models import QuerySet

from apps.pipelines.models import LakeFile


def files_of(
    table: str,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    topics: Collection[str] = (),
) -> "QuerySet[LakeFile]":
    """Return the files of a table with rows about a time, its end not included, in any order.

    Without `topics` those of all; a table that is not divided by topic is read whole.
    """
    found = LakeFile.objects.filter(table=table, retired_at=None)
    if start is not None:
        found = found.exclude(last_at__lt=start)
    if end is not None:
        found = found.exclude(first_at__gte=end)
    if topics:
        found = found.filter(topic__in=["", *topics])
    return found


def paths_of(files: Sequence[LakeFile], lake: Path) -> list[Path]:
    """Return where files lie."""
    return [lake / file.path for file in files]
