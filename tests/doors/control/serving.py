"""The internal door served over a real socket, on the test's loop."""

import asyncio
import socket
from typing import Any

import uvicorn

from apps.bridge.control import token_of
from apps.doors.control.app import create_app
from apps.engine.api import EngineControl

TOKEN = token_of("only for tests")
HOSTS = frozenset({"localhost"})


class Served:
    """A server in this process, on the test's loop."""

    def __init__(self, server: uvicorn.Server, task: "asyncio.Task[None]", port: int) -> None:
        self.server = server
        self.task = task
        self.port = port
        self.engine: EngineControl | None = None

    async def stop(self) -> None:
        self.server.should_exit = True
        await self.task


async def serve(port: int = 0) -> Served:
    """Serve the internal door; the engine is put in afterwards."""
    served: Served
    app = create_app(lambda: served.engine, token=TOKEN, allowed_hosts=HOSTS)
    config = uvicorn.Config(app, http="httptools", lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", port))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0)
    served = Served(server, task, listener.getsockname()[1])
    return served


class Answering:
    """An engine that answers one verb as it is told to, and keeps what it was asked.

    One that `is_later` answers with an awaitable, as an engine that waits for its disk does.
    """

    def __init__(self, verb: str, answer: object, *, is_later: bool = False) -> None:
        self.asked: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._answer = answer
        setattr(self, verb, self._later if is_later else self._verb)

    async def _later(self, *values: Any, **named: Any) -> object:
        await asyncio.sleep(0)
        return self._verb(*values, **named)

    def _verb(self, *values: Any, **named: Any) -> object:
        self.asked.append((values, named))
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer
