"""What a run is about to publish, as values. Knows no database and no Spark."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A whole Parquet file that nobody reads yet. Its rows are about `first_at` to `last_at`."""

    table: str
    topic: str
    day: date | None
    path: Path
    rows: int
    size_bytes: int
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRange:
    """Messages of a queue that went in, the end not included; of a table its rows alone."""

    table: str
    topic: str = ""
    queue: int = 0
    first_offset: int = 0
    end_offset: int = 0
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """How far a queue is copied: from where it was known to be, None for not at all yet."""

    table: str
    store_id: str
    topic: str
    queue: int
    known: int | None
    next_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentCopy:
    """A range of the log that is in the archive, its end not included."""

    store_id: str
    first_log_offset: int
    end_log_offset: int
    rows: int
    crc32: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """All that becomes visible at once.

    `results` are rows by the name of a table that has a model, values in order of its columns.
    `retires` are ids of files that these files take the place of. `rows_expected` is what the
    inputs promise, `rows_read` what came of them, `rows_made` what was to be written. `facets` is
    what else is to be told of the run, as JSON.
    """

    files: Sequence[StagedFile] = ()
    results: Mapping[str, Iterable[Sequence[Any]]] = field(default_factory=dict)
    inputs: Sequence[InputRange] = ()
    moves: Sequence[Move] = ()
    segments: Sequence[SegmentCopy] = ()
    retires: Sequence[int] = ()
    rows_expected: int = 0
    rows_read: int = 0
    rows_made: int = 0
    facets: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows_written(self) -> int:
        """Return the rows of the files, as the files themselves say."""
        return sum(file.rows for file in self.files)
