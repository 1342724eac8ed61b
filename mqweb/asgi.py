"""The composition root of the broker process: what is opened, in which order, and who answers what.

data plane      apps.doors.http, without Django; apps.doors.lane, without HTTP
our processes   apps.doors.control, without Django
websockets      Channels, from pages of our own hosts only
the rest        Django
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, cast

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqweb.settings")
django.setup()

from channels.db import database_sync_to_async  # noqa: E402
from channels.routing import URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.conf import settings  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.db import InterfaceError, OperationalError  # noqa: E402

from apps.access import asking  # noqa: E402
from apps.access.selectors import somebody_administers  # noqa: E402
from apps.access.sockets import with_access  # noqa: E402
from apps.bridge import control, lifecycle  # noqa: E402
from apps.bridge import engine as bridge  # noqa: E402
from apps.bridge.prompt import Clerk, Desk  # noqa: E402
from apps.console.routing import websocket_urlpatterns  # noqa: E402
from apps.core.bodylimit import App, Event, Receive, Send, with_body_limit  # noqa: E402
from apps.core.proxies import FORWARDED, Proxies  # noqa: E402
from apps.doors.control.app import create_app as create_control_app  # noqa: E402
from apps.doors.control.app import is_control  # noqa: E402
from apps.doors.guard import figures  # noqa: E402
from apps.doors.guard.clients import ClientLimits, ClientRates  # noqa: E402
from apps.doors.guard.limited import address_of, by_account, limited  # noqa: E402
from apps.doors.guard.standstill import Watchdog  # noqa: E402
from apps.doors.http.app import create_app, create_door, is_data_plane  # noqa: E402
from apps.doors.http.settings import DoorSettings  # noqa: E402
from apps.doors.http.turns import TurnsOfSends  # noqa: E402
from apps.doors.lane.app import create_app as create_lane_app  # noqa: E402
from apps.doors.lane.app import is_lane  # noqa: E402
from apps.engine.clock import SystemClock  # noqa: E402
from apps.engine.errors import EngineError, Refused  # noqa: E402
from apps.engine.types import AckMode  # noqa: E402
from mqweb.background import Background  # noqa: E402
from mqweb.protocol import connections  # noqa: E402

_allowed_hosts = frozenset(host.strip("[]") for host in settings.ALLOWED_HOSTS)
_rates = ClientRates(
    requests_per_s=settings.MQWEB.client_requests_per_s,
    bytes_per_s=settings.MQWEB.client_bytes_per_s,
    requests_max=settings.MQWEB.client_requests_max,
)
_proxies = Proxies(settings.MQWEB.trusted_proxies)
_watchdog: Watchdog | None = None
_clients = ClientLimits(_rates, SystemClock())
_door_settings = DoorSettings(
    auth=settings.MQWEB.auth,
    allowed_hosts=_allowed_hosts,
    default_ack=AckMode(settings.MQWEB.ack),
    delay_ms_max=settings.MQWEB.delay_ms_max,
    requests_bytes_max=settings.MQWEB.requests_bytes_max,
)
_gate = asking.gate if asking.is_on() else None
_shared = create_door(
    _door_settings,
    own_metrics=lambda in_flight: figures.families(
        connections, _clients, in_flight, _watchdog.stillness if _watchdog else None
    ),
    gate=_gate,
)
_door = create_app(bridge.engine_or_none, _door_settings, door=_shared)
# A broker without limits pays nothing for them.
_lane = create_lane_app(
    bridge.engine_or_none, _shared, client_limits=_clients if _rates.are_any else None
)
_control = create_control_app(
    bridge.engine_or_none,
    token=control.token_of(settings.SECRET_KEY),
    allowed_hosts=_allowed_hosts,
)
_django = with_body_limit(
    cast("App", get_asgi_application()), body_bytes_max=settings.DATA_UPLOAD_MAX_MEMORY_SIZE
)
if _rates.are_any:
    _name_of = address_of if _gate is None else by_account(_gate)
    _door = limited(_door, _clients, name_of=_name_of)
    _django = limited(_django, _clients, name_of=_name_of)
_sockets = AllowedHostsOriginValidator(with_access(URLRouter(websocket_urlpatterns)))


class _Unforwarded:
    """A clerk that leaves to the long way what a proxy may have forwarded for somebody else."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk
        self.answer = clerk.answer

    def meaning_of(self, scope: Event) -> Any:  # The clerk's own.
        """Return what a head means; None for one that says for whom it is sent."""
        if any(name in FORWARDED for name, _ in scope["headers"]):
            return None
        return self._clerk.meaning_of(scope)


class _Application:
    """Everything this process answers; its `desk` answers what the server need not wait for."""

    def __init__(self) -> None:
        # Limits of clients are asked for each request by itself.
        answers_turns = not _rates.are_any
        clerk: Clerk = TurnsOfSends(_shared, bridge.engine_or_none)
        if _proxies.are_any:
            clerk = _Unforwarded(clerk)
        self.desk = Desk(clerk) if answers_turns else None

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """Hand a connection to the part that answers it."""
        kind = scope["type"]
        if kind == "lifespan":
            await _lifespan(receive, send)
            return
        has_scheme = False
        if _proxies.are_any:
            # Everything behind this asks the scope alone who is there.
            has_scheme = _proxies.says_scheme(scope)
            scope = _proxies.seen_through(scope)
        if kind == "http":
            if is_data_plane(scope["path"], scope["method"]):
                await _door(scope, receive, send)
            elif is_lane(scope["path"]):
                await _lane(scope, receive, send)
            elif is_control(scope["path"]):
                await _control(scope, receive, send)
            else:
                if settings.MQWEB.https and not has_scheme:
                    # Who is in front speaks TLS; Django's checks of origins must know.
                    scope["scheme"] = "https"
                await _django(scope, receive, send)
        else:
            await _sockets(scope, receive, send)


application = _Application()


def _watched() -> Callable[[], None]:
    """Have the loop watched from now on; return what ends it. Nobody watches without a server."""
    global _watchdog
    listening = lifecycle.listening()
    if listening is None:
        return lambda: None
    _watchdog = Watchdog(listening)
    _watchdog.start()
    return _watchdog.stop


async def _check_accounts() -> None:
    """Raise Refused where access is on and nobody could sign in to give anybody a right.

    While the database is away nobody knows; the doors are closed until it is back.
    """
    if _gate is None:
        return
    try:
        is_there = await database_sync_to_async(somebody_administers)()
    except (OperationalError, InterfaceError):
        return
    if not is_there:
        error = Refused(
            "MQWEB_AUTH=on needs an account that can sign in and administer; start with "
            "MQWEB_AUTH=off on loopback and make one: manage.py account create NAME --role admin"
        )
        lifecycle.refuse(error)
        raise error


async def _serve_grpc() -> Callable[[], Awaitable[None]]:
    """Open the gRPC door where it has a port; return what closes it, which comes first of all."""
    if not settings.MQWEB.grpc.are_any:
        return _nothing
    # Who has switched it off does not pay for its library.
    from mqweb import grpcdoor

    return await grpcdoor.serve(
        settings.MQWEB, bridge.engine_or_none, _shared, _clients if _rates.are_any else None
    )


async def _nothing() -> None:
    pass


async def _lifespan(receive: Receive, send: Send) -> None:
    """Open before the first request; close in reverse order when the server asks for the end."""
    await receive()
    stop = lifecycle.expect_stop()
    async with AsyncExitStack() as opened:
        opened.callback(stop.finished.set)
        try:
            await _check_accounts()
            engine = await lifecycle.open_engine()
            opened.push_async_callback(lifecycle.close_engine, engine)
            opened.callback(_watched())
            background = Background(engine, gate=_gate)
            opened.push_async_callback(background.stop)
            await background.start()
            opened.push_async_callback(await _serve_grpc())
        except EngineError as error:
            # The command reads the reason from `lifecycle` and turns it into an exit code.
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        told = asyncio.ensure_future(receive())
        asked = asyncio.ensure_future(stop.requested.wait())
        await asyncio.wait((told, asked), return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
    await told
    await send({"type": "lifespan.shutdown.complete"})
