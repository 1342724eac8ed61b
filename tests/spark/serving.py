"""A broker for Spark to talk to: the engine behind its door, in a thread of the test's process.

Topics are told as the console's API tells them; the rest is the product's own.
"""

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import uvicorn

from apps.doors.http.app import create_app
from apps.doors.http.settings import DoorSettings
from apps.engine.clock import SystemClock
from apps.engine.config import EngineConfig
from apps.engine.local import LocalEngine
from tests.engine.offline.stores import CONFIG, publish

T = TypeVar("T")
_TOPIC = "/api/v1/topics/"


@dataclass(frozen=True, slots=True)
class Serving:
    """A broker that serves; `run` does something with its engine, in its thread."""

    url: str
    path: Path
    engine: LocalEngine
    loop: asyncio.AbstractEventLoop

    def run(self, work: Callable[[LocalEngine], Awaitable[T]]) -> T:
        async def worked() -> T:
            return await work(self.engine)

        return asyncio.run_coroutine_threadsafe(worked(), self.loop).result(60)


@contextmanager
def serving(path: Path, *, config: EngineConfig = CONFIG) -> Iterator[Serving]:
    """Serve a store until the block ends."""
    ready = threading.Event()
    found: list[Serving] = []
    stop: list[Callable[[], None]] = []

    async def serve() -> None:
        engine = await LocalEngine.open(path, config)
        publish(engine)
        server = uvicorn.Server(
            uvicorn.Config(_app(engine), http="httptools", lifespan="off", log_level="error")
        )
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            found.append(Serving(f"http://127.0.0.1:{port}", path, engine, loop))
            stop.append(lambda: setattr(server, "should_exit", True))
            ready.set()
            await server.serve(sockets=[listener])
        await engine.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(60)
    try:
        yield found[0]
    finally:
        stop[0]()
        thread.join(60)


def _app(engine: LocalEngine) -> Any:
    door = create_app(lambda: engine, DoorSettings(), clock=SystemClock())

    async def app(scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        topic = path.removeprefix(_TOPIC)
        if not path.startswith(_TOPIC) or "/" in topic:
            await door(scope, receive, send)
            return
        status, body = 404, {"code": "unknown_topic", "title": "unknown"}
        spec = engine.catalog.topics.get(topic)
        if spec is not None:
            queues = [
                {"queue": one.queue, "min_offset": one.min_offset, "max_offset": one.max_offset}
                for one in engine.queue_ranges(topic)
            ]
            status = 200
            body = {
                "topic": topic, "type": "MIXED", "queue_count": len(queues), "queues": queues,
                "cleanup": spec.cleanup.value,
            }  # fmt: skip
        kind = b"application/json" if status == 200 else b"application/problem+json"
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]}
        )
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})

    return app
