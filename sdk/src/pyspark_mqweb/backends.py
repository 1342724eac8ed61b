"""The two places messages are read from: a store's files, or a broker that serves them.

Knows the engine's view of foreign stores and the client's calls; no Spark. Both give the same
blocks of records.
"""

import os
import re
import secrets
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from mqclient import SystemClock, UnknownTopic
from mqclient.errors import ProtocolViolation
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Call, Calls
from mqclient.protocol.endpoint import Endpoint
from mqclient.protocol.plans import Patience, persistently
from mqclient.transport.blocking import Pool
from mqclient.values import TopicInfo

from apps.engine.clock import SystemClock as EngineClock
from apps.engine.codec.batch import starts_of
from apps.engine.codec.columns import fixed_fields, native
from apps.engine.codec.wire import parse_batch
from apps.engine.errors import InvalidArgument
from apps.engine.limits import FETCH_BYTES_MAX, FETCH_MESSAGES_MAX
from apps.engine.offline.leasing import ReaderLease
from apps.engine.offline.opened import OpenedStore
from apps.engine.offline.ranges import within
from apps.engine.offline.reading import holes, read
from apps.engine.offline.slices import OnLoss, QueueExtent, QueueSlice, RecordBlock
from apps.engine.offline.tagged import parts_of
from apps.engine.offline.times import first_since
from apps.engine.offline.view import StoreView
from pyspark_mqweb.errors import BadOption
from pyspark_mqweb.options import SourceOptions

LEASE_PREFIX = "spark-"
_TIMEOUT_S = 30.0
_PULLED = struct.Struct(">4sIqqq")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """What holds the log for a job: its name, and until when (wall time); as a task is told."""

    owner: str
    until_ms: int


class Planner(Protocol):
    """What a driver asks."""

    def refresh(self) -> None:
        """Look again: what is answered from here on is how things are now."""

    def matching(self, pattern: str) -> list[str]:
        """Return the topics a regular expression matches whole."""

    def extents(self, topic: str) -> list[QueueExtent]:
        """Return the queues of a topic in order; raise what says that there is no such topic."""

    def within(self, extent: QueueExtent, low: int, high: int) -> tuple[int, int]:
        """Return which messages of a queue lie in a range of the log, the end not included."""

    def since(self, extent: QueueExtent, time_ms: int) -> int:
        """Return the first message stored at or after a moment, wall time; the end for none."""

    def cut(self, topic: str, queue: int, start: int, stop: int) -> QueueSlice:
        """Return what a task needs to find these messages."""

    def hold(self, slices: Sequence[QueueSlice]) -> Lease | None:
        """Keep the messages of slices, and all behind them, from being deleted for a while."""

    def done(self) -> None:
        """Close what is open; what is held stays so until its time is over."""

    def close(self) -> None:
        """Close what is open and give back what is held."""


def planner(options: SourceOptions) -> Planner:
    """Return what answers a driver. Raises BadOption or EngineError."""
    if options.path is not None:
        return FilePlanner(_local(options.path), options)
    return ServerPlanner(options)


def blocks(
    options: SourceOptions,
    slices: Sequence[QueueSlice],
    lease: Lease | None,
    *,
    hashes: frozenset[int] | None,
    on_loss: OnLoss,
    on_damage: OnLoss,
) -> Iterator[RecordBlock]:
    """Iterate over the records of slices; for a task, anywhere.

    What is damaged is told by files only: a broker does not tell it from what is gone. With
    `hashes` records of other tags may be left out, as far as that spares reading them.
    """
    if options.path is not None:
        path = _local(options.path)
        return _from_files(path, slices, lease, options, hashes, on_loss, on_damage)
    return _from_server(options, slices, on_loss)


def _local(path: str) -> Path:
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    elif "://" in path:
        raise BadOption(f"path is a directory of this machine, not {path}")
    if not Path(path).is_dir():
        raise BadOption(f"path {path} is no directory on {os.uname().nodename}")
    return Path(path)


# --- files ---------------------------------------------------------------------------------------


class FilePlanner:
    """Plans by a store's files; takes one lease for all its plans."""

    def __init__(self, path: Path, options: SourceOptions) -> None:
        """Look at the store. Raises BadOption, StoreDamaged, ForeignSegment or UnknownFormat."""
        try:
            self._view = StoreView(path, is_unsynced_shown=options.is_unsynced_shown)
        except InvalidArgument as error:
            raise BadOption(str(error)) from error
        self._clock = EngineClock()
        self._owner = f"{LEASE_PREFIX}{secrets.token_hex(16)}"
        self._lease_ms = options.lease_ms
        self._lease = ReaderLease(path, self._owner, lease_ms=options.lease_ms, clock=self._clock)
        self._has_lease = False

    def refresh(self) -> None:
        """Look at the files again."""
        self._view.refresh()

    def matching(self, pattern: str) -> list[str]:
        """Return the topics a regular expression matches whole."""
        return self._view.matching(pattern)

    def extents(self, topic: str) -> list[QueueExtent]:
        """Return the queues of a topic in order. Raises UnknownTopic."""
        return self._view.extents(topic)

    def within(self, extent: QueueExtent, low: int, high: int) -> tuple[int, int]:
        """Return which messages of a queue lie in a range of the log. Raises StoreDamaged."""
        return within(self._view, extent, low, high)

    def since(self, extent: QueueExtent, time_ms: int) -> int:
        """Return the first message stored at or after a moment. Raises StoreDamaged."""
        return first_since(self._view, extent, time_ms)

    def cut(self, topic: str, queue: int, start: int, stop: int) -> QueueSlice:
        """Return where the messages lie."""
        return self._view.cut(topic, queue, start, stop)

    def hold(self, slices: Sequence[QueueSlice]) -> Lease | None:
        """Lease the log from the first of the messages on; renewed when half of it is over."""
        places = [self._view.log_offset(one) for one in slices if len(one)]
        if not places:
            return None
        if not self._has_lease:
            self._lease.forget_abandoned(LEASE_PREFIX)
            self._has_lease = True
        self._lease.move(min(places))
        return Lease(owner=self._owner, until_ms=self._lease.until_ms)

    def done(self) -> None:
        """Close the files. The lease outlives the plan: nobody tells a source that a job ended."""
        self._view.close()

    def close(self) -> None:
        """Give the lease back and close the files."""
        self._lease.release()
        self._view.close()


def _from_files(
    path: Path,
    slices: Sequence[QueueSlice],
    lease: Lease | None,
    options: SourceOptions,
    hashes: frozenset[int] | None,
    on_loss: OnLoss,
    on_damage: OnLoss,
) -> Iterator[RecordBlock]:
    clock = EngineClock()
    with ExitStack() as stack:
        own: ReaderLease | None = None
        store = OpenedStore(path)
        stack.callback(store.close)
        for wanted in _parts(store, slices, hashes):
            found = read(
                store, wanted, on_loss=on_loss, on_damage=on_damage, rows_max=options.batch_rows
            )
            for block in found:
                yield block
                if own is not None:
                    own.keep()
                elif lease is not None and _is_half_over(lease, options, clock):
                    # The job takes longer than its lease: this task goes on under one of its own.
                    name = f"{lease.owner}-{secrets.token_hex(8)}"
                    own = ReaderLease(path, name, lease_ms=options.lease_ms, clock=clock)
                    stack.callback(own.release)
                    own.take(store.segments.base(block.log_offset))


def _parts(
    store: OpenedStore, slices: Sequence[QueueSlice], hashes: frozenset[int] | None
) -> Iterator[QueueSlice]:
    for wanted in slices:
        if hashes is None:
            yield wanted
        else:
            yield from parts_of(store, wanted, hashes)


def _is_half_over(lease: Lease, options: SourceOptions, clock: EngineClock) -> bool:
    return lease.until_ms - clock.wall_ms() < options.lease_ms // 2


# --- a broker ------------------------------------------------------------------------------------


class Server:
    """One broker, asked request by request; a request is tried again while that can help."""

    def __init__(self, server: str, token: str | None, *, timeout_s: float = _TIMEOUT_S) -> None:
        """Connect to nobody yet. Raises mqclient's InvalidArgument for what is no URL."""
        endpoint = Endpoint.of(server, token)
        self.calls = Calls(endpoint)
        self._clock = SystemClock()
        self._pool = Pool(endpoint, clock=self._clock)
        self._timeout_s = timeout_s

    def ask(self, call: Call[T]) -> T:
        """Return the answer to a call; raise MqError."""
        patience = Patience(clock=self._clock, backoff=Backoff(), timeout_s=self._timeout_s)
        return self._pool.run(persistently(call, patience))

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


class ServerPlanner:
    """Plans by what a broker says of its queues; nothing is held, so retention may come first."""

    def __init__(self, options: SourceOptions) -> None:
        """Bind to the broker."""
        assert options.server is not None
        self._server = Server(options.server, options.token)
        self._known: dict[str, TopicInfo] = {}

    def refresh(self) -> None:
        """Forget what was said."""
        self._known.clear()

    def matching(self, pattern: str) -> list[str]:
        """Return the topics a regular expression matches whole."""
        wanted = re.compile(pattern)
        found: list[str] = []
        cursor: str | None = None
        while True:
            page, cursor = self._server.ask(self._server.calls.list_topics(cursor))
            found += [info.topic for info in page if wanted.fullmatch(info.topic)]
            if cursor is None:
                return sorted(found)

    def extents(self, topic: str) -> list[QueueExtent]:
        """Return the queues of a topic in order. Raises mqclient's UnknownTopic."""
        info = self._known.get(topic)
        if info is None:
            info = self._known[topic] = self._server.ask(self._server.calls.describe_topic(topic))
        if any(queue.max_offset is None for queue in info.queues):
            raise UnknownTopic(f"the broker does not know the offsets of {topic} at the moment")
        return [
            QueueExtent(
                topic=topic,
                queue=queue.queue,
                min_offset=queue.min_offset or 0,
                max_offset=queue.max_offset or 0,
            )
            for queue in sorted(info.queues, key=lambda one: one.queue)
        ]

    def within(self, extent: QueueExtent, low: int, high: int) -> tuple[int, int]:
        """Raise BadOption: a broker tells nobody where its messages lie."""
        del extent, low, high
        raise BadOption("commitLogRange is for a path")

    def since(self, extent: QueueExtent, time_ms: int) -> int:
        """Return what the broker says; it may know of messages that came after the extent."""
        return self._server.ask(self._server.calls.offset_at(extent.topic, extent.queue, time_ms))

    def cut(self, topic: str, queue: int, start: int, stop: int) -> QueueSlice:
        """Return the numbers: the broker finds the messages."""
        info = self._known.get(topic)
        # How far compaction has come it does not say.
        kept_stop = stop if info is not None and info.cleanup == "compact" else 0
        return QueueSlice(
            topic=topic, queue=queue, start=start, stop=stop, tail_start=stop, kept_stop=kept_stop
        )

    def hold(self, slices: Sequence[QueueSlice]) -> Lease | None:
        """Hold nothing."""
        del slices
        return None

    def done(self) -> None:
        """Close the connections."""
        self._server.close()

    def close(self) -> None:
        """Close the connections."""
        self._server.close()


def _from_server(
    options: SourceOptions, slices: Sequence[QueueSlice], on_loss: OnLoss
) -> Iterator[RecordBlock]:
    assert options.server is not None
    server = Server(options.server, options.token)
    try:
        for wanted in slices:
            yield from _pulled(server, wanted, options, on_loss)
    finally:
        server.close()


def _pulled(
    server: Server, wanted: QueueSlice, options: SourceOptions, on_loss: OnLoss
) -> Iterator[RecordBlock]:
    at = wanted.start
    while at < wanted.stop:
        count = min(wanted.stop - at, options.batch_rows, FETCH_MESSAGES_MAX)
        call = server.calls.pull(
            wanted.topic, wanted.queue, at, messages_max=count, bytes_max=FETCH_BYTES_MAX
        )
        # The engine's codec reads the answer: the client's makes an object of every message.
        answer = server.ask(Call(call.buffers, lambda response: response.body))
        following, block = _block(wanted, answer)
        if len(block) and int(block.offsets[-1]) >= wanted.stop:
            # Where messages are left out, so many reach beyond the slice.
            block = block.of(block.offsets < wanted.stop)
        is_sparse = at < wanted.kept_stop
        for first, last in () if is_sparse else holes(block.offsets, at):
            on_loss(first, last, "the broker cannot read them")
        if following <= at:
            on_loss(at, wanted.stop - 1, "the broker does not have them")
            return
        end = min(following, wanted.stop)
        expected = int(block.offsets[-1]) + 1 if len(block) else at
        if expected < end and not is_sparse:
            on_loss(expected, end - 1, "the broker does not have them")
        if len(block):
            yield block
        at = end


def _block(wanted: QueueSlice, answer: bytes) -> tuple[int, RecordBlock]:
    """Return where to read on, and the records of the answer to a pull."""
    if len(answer) < _PULLED.size or not answer.startswith(b"MQP1"):
        raise ProtocolViolation(f"{answer[:40]!r} is no answer to a pull")
    following = int(_PULLED.unpack_from(answer)[2])
    payload, sizes = parse_batch(answer[_PULLED.size :])
    starts = starts_of(sizes)
    fixed = fixed_fields(payload, starts)
    return following, RecordBlock(
        topic=wanted.topic,
        queue=wanted.queue,
        payload=payload,
        starts=starts,
        sizes=sizes,
        fixed=fixed,
        offsets=native(fixed["queue_offset"]),
    )
