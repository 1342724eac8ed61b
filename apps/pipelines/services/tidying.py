"""Remove from the lake what nobody reads: staging of runs that ended, orphans, retired files.

The one place that lists the lake's directories. A file in place belongs to whom its name says; it
goes only where that run has ended and the manifest, asked after that was known, does not name it.
"""

import logging
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from apps.pipelines import lakepaths
from apps.pipelines.models import LakeFile, PipelineRun
from apps.pipelines.models.runs import ACTIVE

_log = logging.getLogger(__name__)

# Who has settled which files to read may read them for so long after they were retired.
GRACE = timedelta(days=1)
_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """How much went: directories of attempts, files without a row, files that were retired."""

    staging: int
    orphans: int
    retired: int


def tidy(lake: Path, *, at: datetime, grace: timedelta = GRACE) -> Removed:
    """Remove what nobody reads and nobody will, and say how much that was."""
    removed = Removed(
        staging=_staging(lake, at - grace),
        orphans=_orphans(lake, at - grace),
        retired=_retired(lake, at, grace),
    )
    extra = {"staging": removed.staging, "orphans": removed.orphans, "retired": removed.retired}
    _log.info("lake_tidied", extra=extra)
    return removed


def _staging(lake: Path, before: datetime) -> int:
    paths = [path for path in _children(lake / lakepaths.STAGING) if path.is_dir()]
    gone = list(_abandoned(paths, before))
    for path in gone:
        shutil.rmtree(path, ignore_errors=True)
    return len(gone)


def _orphans(lake: Path, before: datetime) -> int:
    count = 0
    layers = [path for path in _children(lake) if not path.name.startswith("_") and path.is_dir()]
    files = (path for layer in layers for path in sorted(layer.rglob(f"part-*{lakepaths.SUFFIX}")))
    while some := list(islice(files, _AT_ONCE)):
        gone = {path.relative_to(lake).as_posix(): path for path in _abandoned(some, before)}
        for known in LakeFile.objects.filter(path__in=gone).values_list("path", flat=True):
            del gone[known]
        for path in gone.values():
            path.unlink(missing_ok=True)
        count += len(gone)
    return count


def _abandoned(paths: Iterable[Path], before: datetime) -> Iterator[Path]:
    """Iterate over what is of runs that have ended, or of a stream and not touched since a time."""
    found = list(paths)
    runs = {run for path in found if (run := lakepaths.run_in(path.name)) is not None}
    active = set(
        PipelineRun.objects.filter(pk__in=runs, state__in=ACTIVE).values_list("pk", flat=True)
    )
    for path in found:
        run = lakepaths.run_in(path.name)
        if run is None:
            is_old = path.stat().st_mtime < before.timestamp()
            if is_old and path.name.startswith(("part-s", "stream-")):
                yield path
        elif run not in active:
            yield path


def _retired(lake: Path, at: datetime, grace: timedelta) -> int:
    count = 0
    while True:
        rows = list(LakeFile.objects.filter(retired_at__lt=at - grace, deleted_at=None)[:_AT_ONCE])
        if not rows:
            return count
        for row in rows:
            (lake / row.path).unlink(missing_ok=True)
        LakeFile.objects.filter(pk__in=[row.pk for row in rows]).update(deleted_at=at)
        count += len(rows)


def _children(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []
