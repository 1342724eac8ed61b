"""Files of the lake for people to take away. A path comes from a row, never from who asks.

Opens nothing and knows no format.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from apps.core.exceptions import ProblemError
from apps.core.pagination import ROW_MAX
from apps.core.phrases import sentence
from apps.pipelines.models import LakeFile, PipelineRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A file that is there: where it lies, its name inside an archive, and its size."""

    path: Path
    name: str
    size_bytes: int


def file(number: int) -> LakeFile:
    """Return a file's row; raise ProblemError `not_found` where there is none."""
    found = LakeFile.objects.filter(pk=number).first() if 0 < number <= ROW_MAX else None
    if found is None:
        raise ProblemError("not_found", sentence("there is no file %(number)s", number=number))
    return found


def kept(row: LakeFile, lake: Path) -> Kept:
    """Return where a file lies; raise ProblemError `not_found` where it is not there.

    A row whose path leads out of the lake, by itself or by a link, has no file either.
    """
    root = lake.resolve()
    path = root.joinpath(*PurePosixPath(row.path).parts).resolve()
    if row.deleted_at is not None or not path.is_relative_to(root) or not path.is_file():
        raise ProblemError(
            "not_found", sentence("file %(pk)s is not in the lake any more", pk=row.pk)
        )
    return Kept(path=path, name=row.path, size_bytes=path.stat().st_size)


def kept_of_run(run: PipelineRun, lake: Path) -> Iterator[Kept]:
    """Yield the files of a run that are there."""
    for row in run.files.filter(deleted_at=None).order_by("pk").iterator():
        try:
            yield kept(row, lake)
        except ProblemError:
            continue
