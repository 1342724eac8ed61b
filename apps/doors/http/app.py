"""The data plane as one ASGI application: route, call a verb, answer. Knows no verb's inside.

The only module that sees a request from its first to its last byte, and so the only one that may
catch what nobody expected.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from urllib.parse import quote

from apps.access.gate import Denied, Gate
from apps.doors.hosts import host_check
from apps.doors.http import (
    answers,
    delayed,
    health,
    locks,
    members,
    metrics,
    offsets,
    pull,
    receive,
    rights,
    search,
    send,
    sendback,
    settle,
    transactions,
)
from apps.doors.http.answers import Answer, Header
from apps.doors.http.calls import Call, Door, Receive, Scope, Send, no_metrics
from apps.doors.http.inflight import InFlight, Share
from apps.doors.http.refusals import ClientGone, Refusal
from apps.doors.http.routing import Match, Verb, is_data_plane, resolve
from apps.doors.http.settings import DoorSettings
from apps.engine.api import EngineAPI
from apps.engine.clock import Clock, SystemClock
from apps.engine.errors import EngineError, OutOfMeans, Stopping

__all__ = ["Application", "DoorSettings", "EngineOf", "create_app", "is_data_plane"]

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
EngineOf = Callable[[], EngineAPI | None]
Handler = Callable[[Door, Call], Awaitable[Answer]]

_HANDLERS: Mapping[Verb, Handler] = {
    Verb.SEND: send.send,
    Verb.SEARCH: search.search,
    Verb.PULL: pull.pull,
    Verb.RECEIVE: receive.receive,
    Verb.ACK: settle.ack,
    Verb.NACK: settle.nack,
    Verb.SEND_BACK: sendback.send_back,
    Verb.EXTEND: settle.extend,
    Verb.COMMIT: offsets.commit,
    Verb.BEGIN: offsets.begin,
    Verb.OFFSET_AT: offsets.offset_at,
    Verb.HEARTBEAT: members.heartbeat,
    Verb.LEAVE: members.leave,
    Verb.ACQUIRE: locks.acquire,
    Verb.RELEASE: locks.release,
    Verb.BEGIN_TRANSACTION: transactions.begin,
    Verb.COMMIT_TRANSACTION: transactions.commit,
    Verb.ROLL_BACK_TRANSACTION: transactions.roll_back,
    Verb.RECEIVE_CHECKS: transactions.receive_checks,
    Verb.RECALL: delayed.recall,
    Verb.DELIVER_NOW: delayed.deliver_now,
    Verb.READY: health.ready,
    Verb.METRICS: metrics.metrics,
}

_CLOSE = (b"connection", b"close")


def create_door(
    settings: DoorSettings,
    *,
    clock: Clock | None = None,
    own_metrics: Callable[[InFlight], Iterable[metrics.Metric]] = no_metrics,
    gate: Gate | None = None,
) -> Door:
    """Return what the application of the data plane shares with whoever answers for it.

    `own_metrics` gives the figures of what stands around the door. `gate` is who decides what
    callers may; raises ValueError for one without `auth`, and for `auth` without one.
    """
    return Door(settings=settings, clock=clock or SystemClock(), own_metrics=own_metrics, gate=gate)


def create_app(
    engine_of: EngineOf,
    settings: DoorSettings,
    *,
    clock: Clock | None = None,
    door: Door | None = None,
) -> Application:
    """Return the ASGI application of the data plane.

    `engine_of` is asked on every request and returns None while no engine is open; requests are
    then answered 503. `door` is its state where another door shares limits and counts with it. The
    application serves HTTP only: lifespan and web sockets are its caller's.
    """
    door = door or create_door(settings, clock=clock)
    is_allowed_host = host_check(settings.allowed_hosts)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"the data plane does not serve {scope['type']!r}")
        share = Share(door.in_flight)
        try:
            await serve(scope, receive, send, share)
        finally:
            share.release()

    async def serve(scope: Scope, receive: Receive, send: Send, share: Share) -> None:
        fields: dict[bytes, bytes] = dict(scope["headers"])
        request_id = door.request_ids.of(fields.get(b"x-request-id"))
        headers: Sequence[Header] = ()
        guards = () if scope["method"] == "POST" else answers.GUARDS
        try:
            if not is_allowed_host(fields.get(b"host", b"")):
                raise Refusal("bad_host", "the Host header is not one this server answers to")
            verb, match = _route(scope)
            if door.gate is None or verb in rights.OPEN:
                allowed: rights.AnyRights = rights.EVERYTHING
            else:
                allowed = door.gate.rights_of(fields.get(b"authorization"), scope.get("client"))
                rights.require(allowed, verb, match)
            if verb is Verb.ALIVE:
                answer = health.alive()
            else:
                engine = engine_of()
                if engine is None:
                    raise Stopping("the engine is not open")
                call = Call(
                    engine,
                    match.name,
                    match.queue,
                    match.client_id,
                    match.token,
                    scope,
                    fields,
                    receive,
                    request_id,
                    share,
                    allowed,
                )
                answer = await _HANDLERS[verb](door, call)
        except Refusal as refusal:
            answer, headers = answers.of_refusal(refusal, request_id)
        except Denied as denied:
            rights.tell(door.gate, denied, scope, fields)
            answer, headers = answers.of_refusal(rights.refusal_of(denied), request_id)
        except MemoryError:
            # This request asked for too much; the next may well find room.
            error = OutOfMeans("no memory is left for this request")
            answer, headers = answers.of_engine_error(error, request_id)
        except EngineError as error:
            answer, headers = answers.of_engine_error(error, request_id)
        except ClientGone:
            return
        except (
            Exception
        ) as error:  # The main loop of the door: the request ends, the door does not.
            answer, headers = answers.of_bug(error, request_id)
        if answer[0] >= 400 and b"expect" in fields:
            # The client may or may not send the body it held back; nobody can tell where the next
            # request would start.
            headers = (*headers, _CLOSE)
        # What came is worked off; what goes counts until it is gone.
        share.release()
        if isinstance(answer[2], bytes):
            share.add(len(answer[2]))
        await answers.respond(send, answer, request_id, (*guards, *headers))

    return application


def _route(scope: Scope) -> tuple[Verb, Match]:
    """Return what a request asks for; raise Refusal for what is not served, or a bad name."""
    # The path as it came; servers that do not keep it are rare, and pay for the quoting.
    match = resolve(scope.get("raw_path") or quote(scope["path"], safe="/:").encode())
    if match is None:
        raise Refusal("not_found", "nothing is served at this address")
    verb = match.row.verbs.get(scope["method"])
    if verb is None:
        allowed = ", ".join(match.row.verbs)
        raise Refusal(
            "method_not_allowed",
            f"this address takes {allowed}",
            headers=((b"allow", allowed.encode()),),
        )
    if match.refusal is not None:
        kind, text = match.refusal
        raise kind(text)
    return verb, match
