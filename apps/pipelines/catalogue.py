"""All jobs: what each reads, what it writes, how often it is run. No Spark, no Django."""

from collections.abc import Mapping
from dataclasses import dataclass

_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 24 * _HOUR_S

LOG = "log"
"""An input that is no table: the store's own log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job. `every_s` is how often beat asks for it; its window is the last whole such slot.

    Its inputs reach `lookback_s` further back than its window, so that what began earlier is known;
    it tells only of what happened in the window.
    `reads` and `writes` name tables of `tables.TABLES`, or LOG. What is optional to read may be
    empty. A job without a table to write changes files of the lake, or the log's archive.
    """

    name: str
    meaning: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    every_s: int
    lookback_s: int = 0


_ALL = (
    Job(
        name="ingest",
        meaning="copies new messages and traces from the log to bronze",
        reads=(LOG,),
        writes=("bronze.messages", "bronze.trace"),
        every_s=5 * _MINUTE_S,
    ),
    Job(
        name="archive",
        meaning="copies log segments that are about to expire, and lets retention have them",
        reads=(LOG,),
        writes=("archive.messages",),
        every_s=_HOUR_S,
    ),
    Job(
        name="loss",
        meaning="finds messages that producers numbered and nobody stored",
        reads=("bronze.messages", "bronze.trace"),
        writes=("gold.loss", "gold.loss_totals"),
        every_s=_HOUR_S,
        lookback_s=_DAY_S,
    ),
    Job(
        name="duplicates",
        meaning="finds what was stored twice or worked on twice, and why",
        reads=("bronze.messages", "bronze.trace"),
        writes=("gold.duplicates", "gold.duplicate_totals"),
        every_s=_HOUR_S,
        lookback_s=_DAY_S,
    ),
    Job(
        name="ordering",
        meaning="finds where the order of a key or of a queue did not hold",
        reads=("bronze.messages", "bronze.trace"),
        writes=("gold.disorder",),
        every_s=_HOUR_S,
        lookback_s=_HOUR_S,
    ),
    Job(
        name="skew",
        meaning="finds uneven queues and hot keys",
        reads=("bronze.messages",),
        writes=("gold.queue_shares", "gold.hot_keys"),
        every_s=_HOUR_S,
        lookback_s=_DAY_S,
    ),
    Job(
        name="rates",
        meaning="counts messages a minute, sent and worked on",
        reads=("bronze.messages", "bronze.trace"),
        writes=("gold.rates",),
        every_s=5 * _MINUTE_S,
        lookback_s=_HOUR_S,
    ),
    Job(
        name="backlog",
        meaning="says why a group is behind and when it will have caught up",
        reads=("input.progress", "bronze.trace"),
        writes=("gold.backlog",),
        every_s=5 * _MINUTE_S,
        lookback_s=_HOUR_S,
    ),
    Job(
        name="delays",
        meaning="measures how punctual delayed messages were",
        reads=("bronze.trace",),
        writes=("gold.delays", "gold.lateness"),
        every_s=_HOUR_S,
        lookback_s=_HOUR_S,
    ),
    Job(
        name="retries",
        meaning="says how many attempts messages took and why they failed",
        reads=("bronze.trace", "input.letters"),
        writes=("gold.retries", "gold.dead_causes"),
        every_s=_HOUR_S,
        lookback_s=2 * _DAY_S,
    ),
    Job(
        name="rebalances",
        meaning="finds storms of rebalances and queues without an owner",
        reads=("input.rebalances", "input.locks"),
        writes=("gold.rebalances",),
        every_s=_HOUR_S,
        lookback_s=_HOUR_S,
    ),
    Job(
        name="quality",
        meaning="looks whether the tables keep their rules",
        reads=("bronze.messages", "bronze.trace"),
        writes=("gold.quality",),
        every_s=_HOUR_S,
        lookback_s=_DAY_S,
    ),
    Job(
        name="compact",
        meaning="makes few large files of many small ones, and removes what nobody reads",
        reads=(),
        writes=(),
        every_s=_DAY_S,
    ),
)

JOBS: Mapping[str, Job] = {job.name: job for job in _ALL}

COPYING = frozenset(job.name for job in _ALL if LOG in job.reads or not job.writes)
"""Jobs that know by themselves what is new: their runs replace nothing, and go one by one."""

READING_BRONZE = frozenset(
    job.name for job in _ALL if any(table.startswith("bronze.") for table in job.reads)
)
"""Jobs that find only what was copied before."""
