"""Bodies, queries and waits of a request, with their limits. Knows no verb.

A body is refused before it is buffered: by its announced length, and by what has come so far.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import unquote_plus

import msgspec
import numpy as np

from apps.access.gate import Denied, Rights
from apps.doors.http.calls import Call, Receive
from apps.doors.http.refusals import ClientGone, Refusal, invalid
from apps.engine.limits import MIB

_Value = TypeVar("_Value")

_DECIMAL = re.compile(r"[0-9]{1,19}")
LONG_MAX = 2**63 - 1
_DETAIL_CHARACTERS_MAX = 300
# The largest of these names every message of the largest receive, 45 characters a handle.
_COMMAND_BYTES_MAX = MIB
# Smaller texts find room in what the process has kept.
_LARGE_BYTES = 64 * 1024
_any_json = msgspec.json.Decoder(msgspec.Raw)


# What is packed may be a thousand times as long as it says.
_AS_IT_IS = b"identity"


async def body_of(call: Call, bytes_max: int) -> bytes | bytearray:
    """Return the whole body.

    Raises Refusal when it is packed, when it is longer than `bytes_max`, or when all requests under
    way hold as much as they may; ClientGone when the client leaves before its end.
    """
    if call.fields.get(b"content-encoding", _AS_IT_IS).lower() != _AS_IT_IS:
        raise Refusal("unsupported_media_type", "a body is taken as it is, in no Content-Encoding")
    announced = call.fields.get(b"content-length")
    # The server has checked that the length is a decimal number.
    if announced is not None and int(announced) > bytes_max:
        raise _too_large(bytes_max)
    if announced is not None:
        call.share.expect(int(announced))
    event = await call.receive()
    if event["type"] != "http.request":
        raise ClientGone
    chunk: bytes = event.get("body", b"")
    call.share.take(len(chunk))
    if not event.get("more_body", False):
        if len(chunk) > bytes_max:
            raise _too_large(bytes_max)
        return chunk
    body = bytearray(chunk)
    while event.get("more_body", False):
        if len(body) > bytes_max:
            raise _too_large(bytes_max)
        event = await call.receive()
        if event["type"] != "http.request":
            raise ClientGone
        chunk = event.get("body", b"")
        call.share.take(len(chunk))
        body += chunk
    if len(body) > bytes_max:
        raise _too_large(bytes_max)
    return body


def _too_large(bytes_max: int) -> Refusal:
    # The server drops what is still on its way; closing here could lose the answer to a client
    # that has not finished writing.
    return Refusal("request_too_large", f"the body is longer than {bytes_max} bytes")


async def json_of(call: Call, decoder: msgspec.json.Decoder[_Value], bytes_max: int) -> _Value:
    """Return a request without messages as the value the decoder makes of it.

    Raises Refusal when it is none, or longer than `bytes_max` or 1 MiB.
    """
    require_json(call)
    return decode(decoder, await body_of(call, min(bytes_max, _COMMAND_BYTES_MAX)))


def require_json(call: Call) -> None:
    """Raise Refusal unless the request says that its body is JSON."""
    content_type = call.fields.get(b"content-type", b"")
    if content_type != b"application/json" and not is_json(content_type):
        raise unsupported_media_type("application/json")


async def nothing_of(call: Call, decoder: msgspec.json.Decoder[Any]) -> None:
    """Read a request that has nothing to say: no body, or one the decoder takes.

    Raises Refusal for any other.
    """
    body = await body_of(call, _COMMAND_BYTES_MAX)
    # A page of another origin can post without a body and without being asked; it cannot hide
    # where it comes from, and it cannot say that it sends JSON.
    if (body or b"origin" in call.fields) and not is_json(call.fields.get(b"content-type", b"")):
        raise unsupported_media_type("application/json")
    if body:
        decode(decoder, body)


def unsupported_media_type(*taken: str) -> Refusal:
    """Return the refusal of a body in another media type than those taken."""
    return Refusal(
        "unsupported_media_type", f"the body's Content-Type must be {' or '.join(taken)}"
    )


@lru_cache(maxsize=64)
def is_json(content_type: bytes) -> bool:
    """Say whether a Content-Type means JSON in UTF-8."""
    media_type, *parameters = (part.strip().lower() for part in content_type.split(b";"))
    return media_type == b"application/json" and all(
        parameter in (b"", b"charset=utf-8", b'charset="utf-8"') for parameter in parameters
    )


def decode(decoder: msgspec.json.Decoder[_Value], data: bytes | bytearray) -> _Value:
    """Return the value of a JSON text; raise Refusal, naming the place of a wrong value.

    Raises MemoryError where there is no room for a second copy of it.
    """
    if len(data) >= _LARGE_BYTES:
        # The decoder does not look whether it was given the memory for a text; a process without
        # any would die of it. What is asked for here is given back at once and found by it.
        np.empty(len(data) + _LARGE_BYTES, np.uint8)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        _check_syntax(data)
        detail, _, path = str(error).rpartition(" - at `$")
        raise _invalid(detail or str(error), path.rstrip("`") if detail else "") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal("bad_json", str(error)[:_DETAIL_CHARACTERS_MAX]) from None
    except RecursionError:
        raise Refusal("bad_json", "the JSON is nested too deeply") from None


def _check_syntax(data: bytes | bytearray) -> None:
    """Raise Refusal unless the bytes are one JSON text.

    The first wrong value ends a typed decoding, before the rest of the text was looked at.
    """
    decode(_any_json, data)


def _invalid(detail: str, path: str) -> Refusal:
    """Refuse a value at msgspec's path, such as `.messages[0].body` or `.properties[...]`."""
    pointer = re.sub(r"\.|\[", "/", path.removesuffix("[...]")).replace("]", "")
    return invalid(pointer, detail[:_DETAIL_CHARACTERS_MAX])


def query_of(call: Call, names: Collection[str]) -> dict[str, str]:
    """Return the query's parameters; raise Refusal for one that is unknown or given twice."""
    return parameters_of(call.query, names)


def parameters_of(query: bytes, names: Collection[str]) -> dict[str, str]:
    """Return the parameters of a query as it came; see `query_of`."""
    values: dict[str, str] = {}
    for item in query.split(b"&") if query else ():
        if not item:
            continue
        name, _, value = item.decode("latin-1").partition("=")
        if name not in names:
            raise invalid("", f"unknown query parameter {name[:100]!r}")
        if name in values:
            raise invalid(f"?{name}", "given twice")
        try:
            values[name] = unquote_plus(value, errors="strict")
        except UnicodeDecodeError:
            raise invalid(f"?{name}", "not UTF-8") from None
    return values


def number(
    query: dict[str, str], name: str, *, default: int | None, low: int = 0, high: int = LONG_MAX
) -> int:
    """Return a query parameter as a number; raise Refusal outside `low` to `high`.

    A default of None makes the parameter required.
    """
    text = query.get(name)
    if text is None:
        if default is None:
            raise invalid(f"?{name}", "required")
        return default
    if _DECIMAL.fullmatch(text) is None or not low <= int(text) <= high:
        raise invalid(f"?{name}", f"must be a decimal number from {low} to {high}")
    return int(text)


def wants(call: Call, media_type: bytes) -> bool:
    """Say whether the caller accepts this media type by name."""
    return media_type in call.fields.get(b"accept", b"")


async def unless_gone(
    work: Coroutine[Any, Any, _Value],
    call: Call,
    *,
    undo: Callable[[_Value], Awaitable[None]] | None = None,
) -> _Value:
    """Await `work`; cancel it and raise ClientGone when the client leaves before it is done.

    It is cancelled as well, and Denied raised, when the client loses a right it needs. Work that
    was done meanwhile is undone by `undo`. The request's body must have been read, or not matter.
    """
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_gone(call.receive))
    rights = call.rights
    denied: asyncio.Future[Denied] = asyncio.get_running_loop().create_future()
    watch = rights.watched(denied.set_result) if isinstance(rights, Rights) else None
    try:
        await asyncio.wait((task, watcher, denied), return_when=asyncio.FIRST_COMPLETED)
        if watcher.done() or denied.done():
            if task.done() and undo is not None:
                await undo(task.result())
            if denied.done():
                raise denied.result()
            if undo is not None or not task.done():
                raise ClientGone
        return task.result()
    finally:
        if watch is not None:
            watch.rights.unwatch(watch)
        watcher.cancel()
        if not task.done():
            task.cancel()
            # The work ends before the request does; what it came to interests nobody any more.
            await asyncio.gather(task, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
