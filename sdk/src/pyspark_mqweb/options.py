"""Options of the source and the sink: texts in, checked values out. Knows no store and no broker.

Names are those of Spark's Kafka connector where it has one; Spark hands them over without case.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyspark_mqweb.errors import BadOption

EARLIEST = -2
LATEST = -1

Offsets = dict[str, dict[int, int]]
"""Queue offsets by topic and queue; EARLIEST and LATEST stand for the ends."""

# What Spark itself puts among the options of a source or a sink.
_SPARKS_OWN = frozenset(("checkpointlocation", "queryname", "mergeschema"))
_NAMES = (
    "path", "server", "token", "subscribe", "subscribePattern", "assign", "startingOffsets",
    "endingOffsets", "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "subExpression", "mode",
    "maxOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition",
    "failOnDataLoss", "includeHeaders", "batchRows", "readUpTo", "segmentLeaseMs", "commitLogRange",
)  # fmt: skip
_SINK_NAMES = ("server", "token", "topic", "producerId", "batchMessages", "timeoutMs")
_TRUTHS = {"true": True, "false": False}
_TIME_MS_MAX = 2**63 - 1
_LEASE_MS_MAX = 24 * 3_600_000


class Mode(Enum):
    """What damaged messages are: an error, rows that say so, or nothing but a line in the log."""

    FAILFAST = "FAILFAST"
    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where to begin, or to end: everywhere at one end, or queue by queue."""

    name: str
    """The option that says so."""

    everywhere: int | None = None
    offsets: Offsets | None = None

    def of(self, topic: str, queue: int, *, default: int) -> int:
        """Return the offset of a queue; EARLIEST and LATEST are for the caller to look up."""
        if self.everywhere is not None:
            return self.everywhere
        assert self.offsets is not None
        return self.offsets.get(topic, {}).get(queue, default)

    def named(self) -> Iterator[tuple[str, int]]:
        """Iterate over the queues that are named one by one."""
        yield from _queues(self.offsets or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When to begin, or to end: with the first message stored at or after a moment, ms since 1970.

    At one moment everywhere, or queue by queue.
    """

    name: str
    """The option that says so."""
    everywhere_ms: int | None = None
    times_ms: dict[str, dict[int, int]] | None = None
    is_needed: bool
    """A queue without such a message is an error; else it is at its end."""

    def of(self, topic: str, queue: int) -> int | None:
        """Return the moment of a queue; None for one that is not named."""
        if self.everywhere_ms is not None:
            return self.everywhere_ms
        assert self.times_ms is not None
        return self.times_ms.get(topic, {}).get(queue)

    def named(self) -> Iterator[tuple[str, int]]:
        """Iterate over the queues that are named one by one."""
        yield from _queues(self.times_ms or {})


def _queues(document: Mapping[str, Mapping[int, int]]) -> Iterator[tuple[str, int]]:
    for topic, queues in document.items():
        for queue in queues:
            yield topic, queue


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a read is about, and how."""

    path: str | None
    server: str | None
    token: str | None
    subscribe: tuple[str, ...]
    pattern: str | None
    assign: dict[str, tuple[int, ...]] | None
    starting: Start | Moment | None
    ending: Start | Moment | None
    sub_expression: str | None
    max_offsets_per_trigger: int | None
    min_partitions: int | None
    max_records_per_partition: int
    is_loss_fatal: bool
    mode: Mode
    has_headers: bool
    batch_rows: int
    is_unsynced_shown: bool
    lease_ms: int
    log_range: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Where rows go, and under which name they are numbered."""

    server: str
    token: str | None
    topic: str | None
    producer_id: str | None
    batch_messages: int
    timeout_s: float


def has_headers(options: Mapping[str, str]) -> bool:
    """Say whether rows are to have the column `headers`. Raises BadOption."""
    return _truth(_folded(options), "includeHeaders", default=False)


def is_permissive(options: Mapping[str, str]) -> bool:
    """Say whether rows are to tell what is damaged. Raises BadOption."""
    return _mode(_folded(options)) is Mode.PERMISSIVE


def source_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options of a read. Raises BadOption."""
    given = _folded(options)
    _refuse_unknown(given, _NAMES)
    path, server = given.get("path"), given.get("server")
    if (path is None) == (server is None):
        raise BadOption("give either path, a store's directory, or server, a broker's URL")
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in given]
    if len(chosen) != 1:
        raise BadOption("give one of subscribe, subscribePattern and assign")
    subscribe = tuple(
        dict.fromkeys(filter(None, map(str.strip, given.get("subscribe", "").split(","))))
    )
    if chosen == ["subscribe"] and not subscribe:
        raise BadOption("subscribe names no topic")
    read_up_to = given.get("readupto", "synced")
    if read_up_to not in ("synced", "written"):
        raise BadOption(f"readUpTo is synced or written, not {read_up_to}")
    if "mode" in given and server is not None:
        raise BadOption(
            "mode is for a path: a broker does not tell what is damaged from what is gone"
        )
    log_range = _log_range(given)
    starting, ending = _border(given, "starting"), _border(given, "ending")
    if log_range is not None and (server is not None or starting is not None or ending is not None):
        raise BadOption("commitLogRange is for a path, and takes the place of offsets")
    return SourceOptions(
        path=path,
        server=server,
        token=given.get("token"),
        subscribe=subscribe,
        pattern=given.get("subscribepattern"),
        assign=_assign(given["assign"]) if "assign" in given else None,
        starting=starting,
        ending=ending,
        sub_expression=given.get("subexpression"),
        max_offsets_per_trigger=_number(given, "maxOffsetsPerTrigger"),
        min_partitions=_number(given, "minPartitions"),
        max_records_per_partition=_number(given, "maxRecordsPerPartition") or 250_000,
        is_loss_fatal=_truth(given, "failOnDataLoss", default=True),
        mode=_mode(given),
        has_headers=_truth(given, "includeHeaders", default=False),
        batch_rows=_number(given, "batchRows") or 10_000,
        is_unsynced_shown=read_up_to == "written",
        lease_ms=_number(given, "segmentLeaseMs", most=_LEASE_MS_MAX) or 600_000,
        log_range=log_range,
    )


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the options of a write. Raises BadOption."""
    given = _folded(options)
    _refuse_unknown(given, _SINK_NAMES)
    if "server" not in given:
        raise BadOption("give server, the broker's URL: only a broker writes to a store")
    producer_id = given.get("producerid")
    if producer_id is not None and not 1 <= len(producer_id) <= 200:
        raise BadOption("producerId has 1 to 200 characters")
    return SinkOptions(
        server=given["server"],
        token=given.get("token"),
        topic=given.get("topic"),
        producer_id=producer_id,
        batch_messages=_number(given, "batchMessages", most=16_384) or 1_000,
        timeout_s=(_number(given, "timeoutMs") or 30_000) / 1000,
    )


def _folded(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}


def _refuse_unknown(given: Mapping[str, str], names: tuple[str, ...]) -> None:
    known = {name.lower() for name in names} | _SPARKS_OWN
    unknown = sorted(set(given) - known)
    if unknown:
        raise BadOption(f"there is no option {unknown[0]}; there are {', '.join(names)}")


def _number(given: Mapping[str, str], name: str, *, most: int = 2**62) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= most:
        raise BadOption(f"{name} is a number from 1 to {most}, not {text!r}")
    return int(text)


def _log_range(given: Mapping[str, str]) -> tuple[int, int] | None:
    text = given.get("commitlogrange")
    if text is None:
        return None
    low, dash, high = text.partition("-")
    is_range = dash and low.isascii() and low.isdigit() and high.isascii() and high.isdigit()
    if not is_range or int(low) >= int(high):
        raise BadOption(f"commitLogRange is two log offsets, as 0-1048576, not {text!r}")
    return int(low), int(high)


def _truth(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name.lower())
    if text is None:
        return default
    if text.lower() not in _TRUTHS:
        raise BadOption(f"{name} is true or false, not {text!r}")
    return _TRUTHS[text.lower()]


def _mode(given: Mapping[str, str]) -> Mode:
    is_loss_fatal = _truth(given, "failOnDataLoss", default=True)
    default = Mode.FAILFAST if is_loss_fatal else Mode.DROPMALFORMED
    text = given.get("mode", default.value)
    if text.upper() not in Mode.__members__:
        raise BadOption(f"mode is {', '.join(Mode.__members__)}; not {text!r}")
    return Mode(text.upper())


def _json(name: str, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BadOption(f"{name} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadOption(f"{name} is a JSON object by topic")
    return document


def _assign(text: str) -> dict[str, tuple[int, ...]]:
    document = _json("assign", text)
    for topic, queues in document.items():
        is_list = isinstance(queues, list) and queues
        if not is_list or not all(type(queue) is int and queue >= 0 for queue in queues):
            raise BadOption(f"assign has a list of queue numbers for {topic}")
    if not document:
        raise BadOption("assign names no topic")
    return {topic: tuple(sorted(set(queues))) for topic, queues in document.items()}


def _border(given: Mapping[str, str], which: str) -> Start | Moment | None:
    """Return where to begin or to end; of several options a moment for all queues comes first."""
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise BadOption(f"startingOffsetsByTimestampStrategy is error or latest, not {strategy}")
    is_needed = which == "starting" and strategy == "error"
    found: list[Start | Moment | None] = [
        _moment(given, f"{which}Timestamp", is_needed=is_needed),
        _moments(given, f"{which}OffsetsByTimestamp", is_needed=is_needed),
        _start(given, f"{which}Offsets"),
    ]
    return next((one for one in found if one is not None), None)


def _moment(given: Mapping[str, str], name: str, *, is_needed: bool) -> Moment | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) > _TIME_MS_MAX:
        raise BadOption(f"{name} is a moment in milliseconds since 1970 UTC, not {text!r}")
    return Moment(name=name, everywhere_ms=int(text), is_needed=is_needed)


def _moments(given: Mapping[str, str], name: str, *, is_needed: bool) -> Moment | None:
    text = given.get(name.lower())
    if text is None:
        return None
    times: dict[str, dict[int, int]] = {}
    for topic, queues in _json(name, text).items():
        if not isinstance(queues, dict):
            raise BadOption(f"{name} has an object of moments by queue for {topic}")
        for queue, time_ms in queues.items():
            is_moment = type(time_ms) is int and 0 <= time_ms <= _TIME_MS_MAX
            if not (queue.isascii() and queue.isdigit()) or not is_moment:
                raise BadOption(
                    f"{name}: moments are milliseconds since 1970 UTC by the number of a queue; "
                    f"not {queue!r}: {time_ms!r}"
                )
            times.setdefault(topic, {})[int(queue)] = time_ms
    return Moment(name=name, times_ms=times, is_needed=is_needed)


def _start(given: Mapping[str, str], name: str) -> Start | None:
    text = given.get(name.lower())
    if text is None:
        return None
    ends = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in ends:
        if (name, text.lower()) == ("endingOffsets", "earliest"):
            raise BadOption("endingOffsets is latest or JSON")
        return Start(name=name, everywhere=ends[text.lower()])
    return Start(name=name, offsets=offsets_of(name, _json(name, text)))


def offsets_of(name: str, document: Mapping[str, Any]) -> Offsets:
    """Return offsets by topic and queue of a document of JSON. Raises BadOption."""
    found: Offsets = {}
    for topic, queues in document.items():
        if not isinstance(queues, dict):
            raise BadOption(f"{name} has an object of offsets by queue for {topic}")
        for queue, offset in queues.items():
            if not (queue.isascii() and queue.isdigit()) or type(offset) is not int or offset < -2:
                raise BadOption(
                    f"{name}: offsets are numbers from 0 on, -2 for the first and -1 for the end, "
                    f"by the number of a queue; not {queue!r}: {offset!r}"
                )
            found.setdefault(topic, {})[int(queue)] = offset
    return found


def document_of(offsets: Mapping[tuple[str, int], int]) -> dict[str, dict[str, int]]:
    """Return offsets as a document that is always written the same: Spark compares its text."""
    document: dict[str, dict[str, int]] = {}
    for (topic, queue), offset in sorted(offsets.items()):
        document.setdefault(topic, {})[str(queue)] = offset
    return document
