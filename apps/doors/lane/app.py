"""The lane's door as one ASGI application: check who asks, and take the connection over.

Whoever asks for anything but the lane's protocol gets a problem document.
"""

from collections.abc import Callable

from apps.access.gate import Denied
from apps.bridge.serving import HAND_OVER
from apps.doors.guard.clients import ClientLimits
from apps.doors.guard.limited import account_name, address_of
from apps.doors.hosts import host_check
from apps.doors.http import answers
from apps.doors.http.app import Application, EngineOf
from apps.doors.http.calls import Door, Receive, Scope, Send
from apps.doors.http.refusals import Refusal
from apps.doors.http.rights import refusal_of, tell
from apps.doors.lane.connection import Connection
from apps.doors.lane.frames import PROTOCOL
from apps.doors.lane.limits import Limits

PATH = "/api/v1/lane"


def is_lane(path: str) -> bool:
    """Say whether a request is this door's to answer, by its decoded path."""
    return path == PATH


def create_app(
    engine_of: EngineOf, door: Door, *, client_limits: ClientLimits | None = None
) -> Application:
    """Return the ASGI application; `door` is the data plane's own, with its limits and counts.

    `client_limits` are those of every door, by the token's account, else the client's address; None
    where there are none.
    """
    is_allowed_host = host_check(door.settings.allowed_hosts)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        fields: dict[bytes, bytes] = dict(scope["headers"])
        request_id = door.request_ids.of(fields.get(b"x-request-id"))
        try:
            if not is_allowed_host(fields.get(b"host", b"")):
                raise Refusal("bad_host", "the Host header is not one this server answers to")
            hand_over = _hand_over_of(scope, fields)
            rights = None
            if door.gate is not None:
                rights = door.gate.rights_of(fields.get(b"authorization"), scope.get("client"))
        except (Refusal, Denied) as refused:
            if isinstance(refused, Denied):
                tell(door.gate, refused, scope, fields)
            refusal = refusal_of(refused) if isinstance(refused, Denied) else refused
            answer, headers = answers.of_refusal(refusal, request_id)
            await answers.respond(send, answer, request_id, (*answers.GUARDS, *headers))
            return
        upgrade = ((b"upgrade", PROTOCOL), (b"x-request-id", request_id))
        name = address_of(scope) if rights is None else account_name(rights)
        limits = None if client_limits is None else Limits(client_limits, name)
        hand_over(Connection(door, engine_of, limits=limits, rights=rights), upgrade)

    return application


def _hand_over_of(scope: Scope, fields: dict[bytes, bytes]) -> Callable[..., None]:
    """Return what hands the connection over; raise Refusal for a request that asks otherwise."""
    if scope["method"] != "GET":
        raise Refusal("method_not_allowed", "this address takes GET", headers=((b"allow", b"GET"),))
    extension = (scope.get("extensions") or {}).get(HAND_OVER)
    if extension is None or fields.get(b"upgrade", b"").lower() != PROTOCOL:
        raise Refusal(
            "upgrade_required",
            f"this address serves the protocol {PROTOCOL.decode()} only",
            headers=((b"upgrade", PROTOCOL), (b"connection", b"close")),
        )
    hand_over: Callable[..., None] = extension["to"]
    return hand_over
