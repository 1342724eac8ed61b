"""Where pipelines read and write. Knows paths and a URL; no settings, no Spark."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The directories and the broker of a run.

    `lake` is where its Parquet files lie and `store` the broker's data directory, which executors
    must see too. `server` is the broker's URL, for what is not in files. Without `bodies` no
    message's body is copied. Rows go from the lake when they are older than `kept`, None for never,
    and the oldest messages and traces while there are more than `bytes_max` of them; 0 is any
    number.
    """

    lake: Path
    store: Path
    server: str
    bodies: bool
    kept: timedelta | None = None
    bytes_max: int = 0
