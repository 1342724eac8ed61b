"""Drive an ASGI application without a socket: one request in, one whole response out."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from apps.doors.http.app import Application
from apps.doors.http.calls import Event, Scope

RECORDS = "application/vnd.mqweb.records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Return the code of a problem document."""
        assert self.headers["content-type"] == "application/problem+json"
        return str(self.json()["code"])


class NoAnswer(Exception):
    """The application ended without a response, as it does when the client has left."""


@dataclass(slots=True)
class Exchange:
    """One request under way: hands out events, collects what is sent."""

    events: list[Event]
    gone: asyncio.Event
    sent: list[Event]
    taken_count: int = 0

    async def receive(self) -> Event:
        if self.taken_count < len(self.events):
            self.taken_count += 1
            return self.events[self.taken_count - 1]
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, event: Event) -> None:
        self.sent.append(event)


class Client:
    """Calls an application as a server would."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self.last: Exchange
        """The request that began last, to see how much of it was read."""

    async def request(
        self,
        method: str,
        target: str,
        *,
        body: bytes | Sequence[bytes] = b"",
        document: object = None,
        headers: dict[str, str] | None = None,
        gone: asyncio.Event | None = None,
        is_cut: bool = False,
    ) -> Response:
        """Send a request and return the response.

        A sequence of bodies arrives in as many events and without Content-Length. The client
        leaves when `gone` is set; with `is_cut` the end of its body never comes.
        """
        sent = {"host": "127.0.0.1:8000"}
        if document is not None:
            body = json.dumps(document).encode()
            sent["content-type"] = "application/json"
        if isinstance(body, bytes):
            sent["content-length"] = str(len(body))
        sent |= headers or {}
        exchange = Exchange(list(_events(body, is_cut)), gone or asyncio.Event(), [])
        self.last = exchange
        path, _, query = target.partition("?")
        scope: Scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items() if value],
            "client": ("192.0.2.7", 40000),
        }
        await self._app(scope, exchange.receive, exchange.send)
        return _response(exchange.sent)

    async def get(self, target: str, **options: Any) -> Response:
        return await self.request("GET", target, **options)

    async def post(self, target: str, document: object = None, **options: Any) -> Response:
        return await self.request("POST", target, document=document, **options)


def _events(body: bytes | Sequence[bytes], is_cut: bool) -> Iterable[Event]:
    chunks = [body] if isinstance(body, bytes) else body
    for index, chunk in enumerate(chunks):
        is_last = index == len(chunks) - 1
        yield {"type": "http.request", "body": chunk, "more_body": is_cut or not is_last}


def _response(sent: list[Event]) -> Response:
    if not sent:
        raise NoAnswer
    start, *parts = sent
    assert [part.get("more_body", False) for part in parts] == [True] * (len(parts) - 1) + [False]
    body = {"body": b"".join(part["body"] for part in parts)}
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    assert len(headers) == len(start["headers"]), "a header was sent twice"
    if start["status"] != 204:
        assert int(headers["content-length"]) == len(body["body"])
    return Response(status=start["status"], headers=headers, body=body["body"])
