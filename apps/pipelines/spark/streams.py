"""How a stream tells of its batches, and how wanted streams are kept running.

Callbacks of Spark only put what they were told into a queue; a thread writes it down.
"""

import json
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django.db import InterfaceError, OperationalError, connection
from django.db.models.functions import Now

from apps.bridge.children import Child, Program
from apps.bridge.exits import Exit
from apps.bridge.pauses import Pauses
from apps.engine.clock import Clock
from apps.pipelines.models import PipelineStream, StreamBatch

# What cannot be written down is forgotten, the oldest first: newer batches say more.
_TOLD_MAX = 1_000
_PAUSE_MS_MIN = 1_000
_PAUSE_MS_MAX = 60_000

_log = logging.getLogger("mqweb.pipelines")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What Spark tells of a batch; `lag` None is unknown. Without a number nothing has come."""

    number: int | None
    rows: int
    duration_ms: int
    lag: int | None


IDLE = Batch(number=None, rows=0, duration_ms=0, lag=0)


def lag_of(sources: Iterable[tuple[str | None, str | None]]) -> int | None:
    """Return how many messages are behind: end and newest offsets of each source, as JSON."""
    lag = 0
    for end, newest in sources:
        ends, news = _offsets(end), _offsets(newest)
        if ends is None or news is None:
            return None
        lag += sum(max(0, offset - ends.get(name, 0)) for name, offset in news.items())
    return lag


def _offsets(text: str | None) -> Mapping[tuple[str, str], int] | None:
    if not text:
        return None
    try:
        found = json.loads(text)
        return {
            (topic, number): int(offset)
            for topic, queues in found.items()
            for number, offset in queues.items()
        }
    except (ValueError, TypeError, AttributeError):
        return None


class Teller:
    """Writes batches down from a thread of its own; whoever tells it never waits."""

    def __init__(self, stream: PipelineStream) -> None:
        """Tell of a stream."""
        self._stream = stream
        self._told: queue.Queue[Batch | None] = queue.Queue(_TOLD_MAX)
        self._thread = threading.Thread(target=self._run, name="stream-teller", daemon=True)

    def start(self) -> None:
        """Write down what comes, until `stop`."""
        self._thread.start()

    def put(self, batch: Batch) -> None:
        """Take a batch; returns at once."""
        try:
            self._told.put_nowait(batch)
        except queue.Full:
            with suppress(queue.Empty):
                self._told.get_nowait()
            self.put(batch)

    def stop(self, timeout_s: float = 5.0) -> None:
        """Write down what has come, for some seconds at most."""
        try:
            self._told.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def write(self, batch: Batch) -> None:
        """Write one batch down. Its row may be there: what is published with it is more exact."""
        ours = PipelineStream.objects.filter(pk=self._stream.pk, worker=self._stream.worker)
        if batch.number is None:
            ours.update(lag=batch.lag, updated_at=Now())
            return
        ours.update(batch=batch.number, lag=batch.lag, updated_at=Now())
        row, is_new = StreamBatch.objects.get_or_create(
            stream=self._stream,
            number=batch.number,
            defaults={
                "rows": batch.rows,
                "duration_ms": batch.duration_ms,
                "lag": batch.lag,
                "ended_at": Now(),
            },
        )
        if not is_new:
            StreamBatch.objects.filter(pk=row.pk).update(lag=batch.lag)

    def _run(self) -> None:
        try:
            while (batch := self._told.get()) is not None:
                try:
                    self.write(batch)
                except (OperationalError, InterfaceError) as error:
                    connection.close()
                    _log.warning("batch_without_database", extra={"detail": str(error)})
        finally:
            connection.close()


def listener(put: Callable[[Batch], None]) -> Any:
    """Return Spark's listener that hands the batches of all queries of a session over."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):  # type: ignore[misc]
        """Hands over what Spark tells."""

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            """Nothing is known yet."""

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            """Hand a batch over."""
            progress = event.progress
            if not progress.numInputRows:
                return
            put(
                Batch(
                    number=progress.batchId,
                    rows=progress.numInputRows,
                    duration_ms=int(progress.batchDuration),
                    lag=lag_of((one.endOffset, one.latestOffset) for one in progress.sources),
                )
            )

        def onQueryIdle(self, event: Any) -> None:  # noqa: ARG002, N802
            """Say that all there was has been read."""
            put(IDLE)

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            """Whoever waits for the query is told."""

    return Listener()


@dataclass(slots=True)
class _Kept:
    child: Child | None = None
    started_ms: int = 0
    pauses: Pauses = field(
        default_factory=lambda: Pauses(min_ms=_PAUSE_MS_MIN, max_ms=_PAUSE_MS_MAX)
    )
    start_at_ms: int = 0


class StreamKeeper:
    """Keeps a process running for each stream that is wanted; `step` is called every second."""

    def __init__(
        self,
        *,
        wanted: Callable[[], Iterable[str]],
        program: Callable[[str], Program],
        clock: Clock,
        died: Callable[[str, int], object],
        start: Callable[[Program], Child] = Child,
    ) -> None:
        """Keep nothing yet; `died` is told of a process that has ended: stream and number."""
        self._wanted = wanted
        self._program = program
        self._clock = clock
        self._died = died
        self._start = start
        self._kept: dict[str, _Kept] = {}

    def step(self) -> None:
        """Start what is wanted and does not run, with pauses that double; end what is not."""
        wanted = set(self._wanted())
        for name in wanted - self._kept.keys():
            self._kept[name] = _Kept()
        for name, kept in list(self._kept.items()):
            self._look(name, kept)
            if name not in wanted:
                if kept.child is None:
                    del self._kept[name]
                else:
                    kept.child.send(kept.child.program.stop_signal)
            elif kept.child is None and self._clock.monotonic_ms() >= kept.start_at_ms:
                kept.child = self._start(self._program(name))
                kept.started_ms = self._clock.monotonic_ms()
                extra = {"part": f"stream {name}", "pid": kept.child.pid}
                _log.info("part_started", extra=extra)

    def stop(self) -> None:
        """Ask all to end, and wait until they have."""
        children = [kept.child for kept in self._kept.values() if kept.child is not None]
        for child in children:
            child.send(child.program.stop_signal)
        for child in children:
            child.wait()

    def _look(self, name: str, kept: _Kept) -> None:
        child = kept.child
        code = None if child is None else child.poll()
        if child is None or code is None:
            return
        # One that was killed holds the stream until its lease ends, and the next would wait for it.
        self._died(name, child.pid)
        kept.child = None
        now_ms = self._clock.monotonic_ms()
        # Another process may have it, or what it needs may be missing: no hurry.
        is_hopeless = code in (Exit.HELD, Exit.LACKING, Exit.REFUSED)
        pause_ms = kept.pauses.after(now_ms - kept.started_ms, is_hopeless=is_hopeless)
        kept.start_at_ms = now_ms + pause_ms
        extra = {"part": f"stream {name}", "code": code, "again_in_ms": pause_ms}
        _log.error("part_ended", extra=extra)
