"""Names of the lake's files, and moving them into place. Knows paths; no rows, no Parquet.

`<layer>/<table>/topic=<topic>/dt=<UTC day>/part-<run>-<number>.parquet` is where a file of a run
lies for good; all that is not there yet lies below `_staging`, a directory for each attempt.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from urllib.parse import quote

STAGING = "_staging"
SUFFIX = ".parquet"

# A file system takes 255 bytes; some of them are for `topic=`.
_NAME_BYTES_MAX = 200

_OF_RUN = re.compile(r"(?:part|run)-([0-9]+)-")


def of_run(run: int) -> str:
    """Return how the files of a run are named."""
    return f"part-{run}"


def staging(lake: Path, run: int, token: str) -> Path:
    """Return the directory of one attempt of a run; `token` tells attempts apart."""
    return lake / STAGING / f"run-{run}-{token}"


def stream_staging(lake: Path, stream: int, token: str) -> Path:
    """Return the directory of one attempt of a stream's batch."""
    return lake / STAGING / f"stream-{stream}-{token}"


def checkpoint(lake: Path, stream: int) -> Path:
    """Return where Spark keeps how far a stream is."""
    return lake / "_checkpoints" / f"stream-{stream}"


def run_in(name: str) -> int | None:
    """Return the run that a file or a staging directory is of by its name; None for a stream's."""
    found = _OF_RUN.match(name)
    return None if found is None else int(found[1])


def final(table: str, *, topic: str, day: date | None, prefix: str, number: int) -> str:
    """Return where a file lies for good, relative to the lake.

    Names of topics are quoted as in URLs: `%RETRY%g` is `%25RETRY%25g`. One that becomes too long
    for a file system ends in a digest.
    """
    parts = table.split(".")
    if topic:
        parts.append(f"topic={_quoted(topic)}")
    if day is not None:
        parts.append(f"dt={day.isoformat()}")
    return "/".join([*parts, f"{prefix}-{number}{SUFFIX}"])


def _quoted(topic: str) -> str:
    quoted = quote(topic, safe="")
    if len(quoted) <= _NAME_BYTES_MAX:
        return quoted
    digest = hashlib.blake2s(topic.encode(), digest_size=8).hexdigest()
    return f"{quoted[: _NAME_BYTES_MAX - 17]}~{digest}"


def move(lake: Path, moves: Iterable[tuple[Path, str]]) -> None:
    """Move files to where they lie for good; they and their names are on the disk on return.

    What is already there by such a name is replaced. Raises OSError.
    """
    changed: set[Path] = set()
    for source, relative in moves:
        target = lake / relative
        _make(target.parent, changed)
        _sync(source)
        source.replace(target)
        changed.add(target.parent)
    for directory in sorted(changed):
        _sync(directory)


def _make(directory: Path, changed: set[Path]) -> None:
    """Make a directory and those above it, and note whose entries have changed."""
    if directory.is_dir():
        return
    _make(directory.parent, changed)
    directory.mkdir(exist_ok=True)
    changed.add(directory.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
