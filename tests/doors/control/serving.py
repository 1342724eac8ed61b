"""The internal door served over a real socket, on the test's loop."""

import asyncio
import socket

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
