"""When waiting messages move between memory and the disk. Knows numbers only."""

from dataclasses import dataclass

from apps.engine.limits import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerTuning:
    """When waiting messages are moved.

    A flush comes with so many rows that are not due within `near_ms`, with so many parcels or bytes
    of the log that a start would have to look through, or when the first parcel has not moved for
    so long. Of runs, what is due within `near_ms` is in memory, unless that is over `rows_max`:
    then what is due within `next_ms`.
    """

    flush_rows: int = 262_144
    flush_parcels: int = 262_144
    flush_log_bytes: int = GIB
    flush_age_ms: int = 3_600_000
    near_ms: int = 60_000
    next_ms: int = 2_000
    rows_max: int = 262_144
    runs_max: int = 8
    merged_runs: int = 4
    rewritten_rows_min: int = 65_536
