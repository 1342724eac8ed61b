"""What runs beside the doors on the engine's loop: the feed, and all that needs rows."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from apps.access import asking, keeping
from apps.access.gate import Gate
from apps.access.keeping import Keeper
from apps.alerts.selectors import attention
from apps.audit import heads
from apps.audit import services as audit
from apps.bridge import loops
from apps.clockwork import selectors
from apps.console import attention as needs
from apps.console import feed, relay
from apps.console.audience import audience
from apps.console.clockwork import ClockworkWatch
from apps.console.deathwatch import DeathWatch
from apps.console.jobwatch import JobsWatch
from apps.console.pipelines import watch as pipelines
from apps.console.sparklines import LastHour
from apps.deadletters.projection import DeadLetterProjector
from apps.deadletters.selectors import waiting_letters
from apps.deadletters.selectors.jobs import going_on
from apps.engine.api import EngineAPI
from apps.engine.clock import SystemClock
from apps.engine.codec.layout import HALF_TOPIC
from apps.groups.projection.groups import GroupProjector
from apps.groups.projection.offsets import OffsetProjector
from apps.groups.watch import BacklogWatch
from apps.metrics.selectors import totals_of_last_hour
from apps.topics import snapshot
from apps.transactions.services import report_unknown_decisions

_log = logging.getLogger("mqweb.broker")

_PROJECT_EVERY_S = 5.0
# Rows follow members and locks within so long; where nothing happened it costs microseconds.
_PROJECT_GROUPS_EVERY_S = 1.0
_PROJECT_LETTERS_EVERY_S = 1.0
_WATCH_BACKLOG_EVERY_S = 5.0
_READ_CLOCKWORK_EVERY_S = 2.0
_READ_LAST_HOUR_EVERY_S = 10.0
_READ_DEATHS_EVERY_S = 5.0
_READ_ATTENTION_EVERY_S = 3.0
# Where nothing runs, most of these looks find that it is too early.
_READ_PIPELINES_EVERY_S = 1.0
# What was written since the head was kept could be cut off without a trace.
_KEEP_AUDIT_EVERY_S = 10.0
# While nobody looks at a job nothing is read.
_READ_JOBS_EVERY_S = 1.0
# Each step waits by itself; this pause is for a channel layer that refuses at once.
_RELAY_AGAIN_S = 0.2
# A stop does not wait longer for a database that has gone away.
_LAST_PROJECTION_S = 3.0


class Background:
    """The background work of one engine. Every step tolerates a database that is away."""

    def __init__(self, engine: EngineAPI, *, gate: Gate | None = None) -> None:
        """Start nothing yet; `gate` is the doors', None where access is off."""
        self._engine = engine
        self._clock = SystemClock()
        self._gate = gate
        self._keeper = None if gate is None else Keeper(gate.used, clock=self._clock)
        self._projector = OffsetProjector()
        self._groups = GroupProjector(self._clock)
        self._letters = DeadLetterProjector(self._clock)
        self._backlog = BacklogWatch(self._clock)
        self._watch = ClockworkWatch(
            clock=self._clock, worker_processes=settings.MQWEB.worker_processes
        )
        self._last_hour = LastHour()
        self._deaths = DeathWatch(clock=self._clock)
        self._pipelines = pipelines.PipelinesWatch(clock=self._clock)
        self._jobs = JobsWatch(clock=self._clock)
        self._head = heads.HeadKeeper(settings.MQWEB.data / heads.FILE)
        self._tasks: list[asyncio.Task[None]] = []
        self._is_database_away = False

    async def start(self) -> None:
        """Publish the catalog if the database can be asked, then start the loops."""
        asking.streams_on(asyncio.get_running_loop())
        await self._keep_access()
        await self._keep_catalog()
        outgoing, incoming = relay.Outgoing(), relay.Incoming()
        feeding = partial(
            feed.run,
            self._engine,
            clock=self._clock,
            clockwork=self._watch,
            last_hour=self._last_hour,
            deaths=self._deaths,
            pipelines=self._pipelines,
            jobs=self._jobs,
            sleep=asyncio.sleep,
            publish=outgoing.put,
            # With Redis viewers may be with other processes, which do not say so.
            is_watched=lambda: audience.is_there or settings.MQWEB.redis_url is not None,
        )
        steps: list[tuple[str, float, Callable[[], Awaitable[object]]]] = [
            ("console_outgoing", _RELAY_AGAIN_S, outgoing.step),
            ("console_incoming", _RELAY_AGAIN_S, incoming.step),
            ("offset_projector", _PROJECT_EVERY_S, self._project_offsets),
            ("group_projector", _PROJECT_GROUPS_EVERY_S, self._project_groups),
            ("dead_letter_projector", _PROJECT_LETTERS_EVERY_S, self._project_letters),
            ("backlog_watch", _WATCH_BACKLOG_EVERY_S, self._watch_backlog),
            ("clockwork_reader", _READ_CLOCKWORK_EVERY_S, self._read_clockwork),
            ("last_hour_reader", _READ_LAST_HOUR_EVERY_S, self._read_last_hour),
            ("dead_letter_reader", _READ_DEATHS_EVERY_S, self._read_deaths),
            ("alert_reader", _READ_ATTENTION_EVERY_S, self._read_attention),
            ("pipeline_reader", _READ_PIPELINES_EVERY_S, self._read_pipelines),
            ("job_reader", _READ_JOBS_EVERY_S, self._read_jobs),
            ("audit_keeper", _KEEP_AUDIT_EVERY_S, self._keep_audit),
        ]
        if self._gate is not None:
            steps += [
                ("access_keeper", keeping.STEP_EVERY_S, self._keep_access),
                ("access_watch", keeping.LOOK_EVERY_S, self._look_at_streams),
            ]
        self._tasks = [asyncio.create_task(loops.kept(feeding, name="console_feed"))]
        self._tasks += [
            asyncio.create_task(loops.every(interval_s, step, name=name))
            for name, interval_s, step in steps
        ]

    async def stop(self) -> None:
        """Stop the loops and project offsets and groups once more."""
        asking.streams_on(None)
        await loops.end(self._tasks)
        try:
            async with asyncio.timeout(_LAST_PROJECTION_S):
                await self._project_last()
        except TimeoutError:
            _log.warning("last_projection_skipped")

    async def _keep_access(self) -> None:
        if self._keeper is not None:
            await self._in_database(self._keeper.step)

    async def _look_at_streams(self) -> None:
        assert self._gate is not None
        self._gate.look()

    async def _keep_catalog(self) -> None:
        halves = self._engine.own_ranges(HALF_TOPIC).get(HALF_TOPIC, [])
        begun = halves[0].max_offset if halves else 0

        def keep() -> None:
            snapshot.keep()
            report_unknown_decisions(begun=begun)

        await self._in_database(keep)

    async def _read_clockwork(self) -> None:
        await self._in_database(partial(self._watch.take, selectors.clockwork))

    async def _read_last_hour(self) -> None:
        await self._in_database(self._take_last_hour)

    async def _read_deaths(self) -> None:
        await self._in_database(partial(self._deaths.take, waiting_letters))

    async def _read_attention(self) -> None:
        read = partial(attention, now_ms=self._clock.wall_ms())
        await self._in_database(partial(needs.watch.take, read, clock=self._clock))

    async def _read_pipelines(self) -> None:
        if self._pipelines.is_due():
            await self._in_database(partial(self._pipelines.take, pipelines.look))

    async def _read_jobs(self) -> None:
        # With Redis viewers may be with other processes, which do not say so.
        if audience.watches("job") or settings.MQWEB.redis_url is not None:
            await self._in_database(partial(self._jobs.take, lambda also: going_on(also=also)))
        else:
            self._jobs.rest()

    async def _keep_audit(self, *, is_last: bool = False) -> None:
        def keep() -> None:
            audit.write_refusals(is_last=is_last)
            self._head.keep()

        await self._in_database(keep)

    def _take_last_hour(self) -> None:
        now_ms = self._clock.wall_ms()
        self._last_hour.take(totals_of_last_hour(now_ms=now_ms), now_ms=now_ms)

    async def _project_offsets(self) -> None:
        progress = self._engine.group_progress()
        now_ms = self._clock.wall_ms()

        def project() -> None:
            self._projector.project(progress, now_ms=now_ms)
            self._groups.seen.project({row.group for row in progress})

        await self._in_database(project)

    async def _project_groups(self) -> None:
        look = self._groups.look(self._engine)
        if look is not None:
            await self._in_database(partial(self._groups.write, look))

    async def _project_letters(self) -> None:
        look = self._letters.look(self._engine)
        if look is not None:
            await self._letters.project(look, self._engine, self._in_database)

    async def _project_last(self) -> None:
        await self._project_offsets()
        await self._project_groups()
        await self._keep_audit(is_last=True)

    async def _watch_backlog(self) -> None:
        self._backlog.look(self._engine)

    async def _in_database(self, work: Callable[[], object]) -> None:
        """Run `work` in a thread; the data plane goes on while the database does not answer."""
        try:
            await sync_to_async(_with_connection, thread_sensitive=False)(work)
        except (OperationalError, InterfaceError) as error:
            if not self._is_database_away:
                _log.warning("database_away", extra={"detail": str(error)})
            self._is_database_away = True
        else:
            if self._is_database_away:
                _log.info("database_back")
            self._is_database_away = False


def _with_connection(work: Callable[[], object]) -> None:
    """Carry out database work in a thread that keeps no connection afterwards."""
    try:
        # Work that happens to need no query must not pass for a database that answers.
        connection.ensure_connection()
        work()
    finally:
        connection.close()
