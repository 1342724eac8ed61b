"""What runs beside the doors on the engine's loop: feed, catalog keeper, offset projector."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, connection

from apps.bridge import loops
from apps.console import feed, sockets
from apps.engine.api import EngineAPI
from apps.engine.clock import SystemClock
from apps.groups.services import OffsetProjector
from apps.topics import snapshot

_log = logging.getLogger("mqweb.broker")

_PROJECT_EVERY_S = 5.0
_KEEP_EVERY_S = 5.0
# A stop does not wait longer for a database that has gone away.
_LAST_PROJECTION_S = 3.0


class Background:
    """The background work of one engine. Every step tolerates a database that is away."""

    def __init__(self, engine: EngineAPI) -> None:
        """Start nothing yet."""
        self._engine = engine
        self._clock = SystemClock()
        self._projector = OffsetProjector()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_database_away = False

    async def start(self) -> None:
        """Publish the catalog if the database can be asked, then start the loops."""
        await self._keep_catalog()
        feeding = partial(
            feed.run,
            self._engine,
            clock=self._clock,
            sleep=asyncio.sleep,
            publish=sockets.publish,
        )
        self._tasks = [
            asyncio.create_task(loops.kept(feeding, name="console_feed")),
            asyncio.create_task(
                loops.every(_KEEP_EVERY_S, self._keep_catalog, name="catalog_keeper")
            ),
            asyncio.create_task(
                loops.every(_PROJECT_EVERY_S, self._project_offsets, name="offset_projector")
            ),
        ]

    async def stop(self) -> None:
        """Stop the loops and project the offsets once more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await asyncio.wait_for(self._project_offsets(), _LAST_PROJECTION_S)
        except TimeoutError:
            _log.warning("last_projection_skipped")

    async def _keep_catalog(self) -> None:
        await self._in_database(snapshot.keep)

    async def _project_offsets(self) -> None:
        progress = self._engine.group_progress()
        await self._in_database(
            partial(self._projector.project, progress, now_ms=self._clock.wall_ms())
        )

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
        work()
    finally:
        connection.close()
