"""Hostile requests to every address of a live product: nothing fails, nothing grows, nothing leaks.

The addresses are those of the OpenAPI document and of the live sockets; none is written down here,
so a new one is attacked as soon as it is there.
"""

import contextlib
import http.client
import itertools
import json
import re
import socket
import time
import zlib
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from apps.console.routing import websocket_urlpatterns
from tests.fuzz.server import Closed
from tests.rounds import seed_of_run
from tests.web.product import ROOT

pytestmark = pytest.mark.process

MIB = 1 << 20
BODY_BYTES = 160 * MIB  # Ten times what the largest request may have.
# Beside what the product has anyway; bodies that are refused unread cost nothing.
GROWTH_BYTES_MAX = 160 * MIB
NESTED = b"[" * 200_000
MANY_FIELDS = b"{" + b",".join(b'"f%d":1' % number for number in range(1_000_000)) + b"}"
PARTS = (
    "..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "%00", "a%00b",
    "%0d%0aX-Forged:%201", "%1b%5b31m", "a" * 255, "A" * 4_000, "%ff%fe", "ORDERS", "Billing",
    "%252e%252e", ".", "%5c..%5c", "%e2%80%ae", "con", "%25RETRY%25billing", "-1", "1e9",
    "9" * 40,
)  # fmt: skip
HEADERS = {
    "X-Request-Id": "a\tb\x7f" + "x" * 300,
    "User-Agent": "\x1b[31mred\x1b]0;title\x07 \xe9",
    "X-Forwarded-For": "10.0.0.1, ${jndi:ldap://x}",
}


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    opened = Closed(tmp_path_factory.mktemp("hostile") / "data")
    try:
        yield opened
        assert opened.product.process.poll() is None
    finally:
        opened.product.kill_everything()


@pytest.fixture(scope="module")
def document(product: Closed) -> Any:
    return product.call("GET", "/api/schema/", token=product.tokens["admin"])[1]


def operations(document: Any) -> list[tuple[str, str, Any]]:
    """Return method, address and description of every operation."""
    return [
        (method.upper(), path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]


def filled(path: str) -> str:
    """Return an address with a name in each of its parts."""
    return re.sub(r"{[^}]+}", "1", path)


def taking_a_body(document: Any) -> list[tuple[str, str]]:
    found = [
        (method, filled(path))
        for method, path, operation in operations(document)
        if "requestBody" in operation
    ]
    assert len(found) > 35
    return found


class Raw:
    """One connection on which anything can be written."""

    def __init__(self, product: Closed) -> None:
        self._socket = socket.create_connection(("127.0.0.1", product.product.port), timeout=30)
        self._token = product.tokens["admin"]

    def head(self, method: str, target: str, **headers: str) -> None:
        """Write a request's head, byte for byte."""
        fields = {
            "Host": "127.0.0.1", "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json", **headers,
        }  # fmt: skip
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {fields[name]}" for name in fields)]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def write(self, data: bytes) -> None:
        """Write a part of a body; the server may have closed by then."""
        self._socket.sendall(data)

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Return status, fields and body of the answer."""
        response = http.client.HTTPResponse(self._socket)
        response.begin()
        found = response.read()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, found

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def family_bytes(product: Closed) -> int:
    """Return the memory of the product and all below it but the database."""
    main = psutil.Process(product.product.process.pid)
    everyone = [main, *main.children(recursive=True)]
    return sum(one.memory_info().rss for one in everyone if "postgres" not in one.name())


def asked(
    product: Closed, method: str, target: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Return the answer to a request written byte for byte."""
    with Raw(product) as raw:
        raw.head(method, target, **{"Content-Length": str(len(body)), **headers})
        # Answered, and closed, before all of it was there.
        with contextlib.suppress(OSError):
            raw.write(body)
        return raw.answer()


def test_bodies_far_over_the_limit_are_refused_before_they_are_there(
    product: Closed, document: Any
) -> None:
    before = family_bytes(product)
    for method, target in taking_a_body(document):
        with Raw(product) as raw:
            raw.head(method, target, **{"Content-Length": str(BODY_BYTES)})
            status, _, found = raw.answer()
        assert status == 413, (method, target, status, found[:200])
    assert family_bytes(product) - before < GROWTH_BYTES_MAX


def test_bodies_that_grow_past_the_limit_are_refused_while_they_come(
    product: Closed, document: Any
) -> None:
    before, highest = family_bytes(product), 0
    piece = b"%x\r\n" % MIB + b"x" * MIB + b"\r\n"
    # Gigabytes, so each run has its share of the addresses.
    seed = seed_of_run()
    print(f"MQWEB_TEST_SEED={seed}")
    for method, target in taking_a_body(document)[seed % 8 :: 8]:
        with Raw(product) as raw:
            raw.head(method, target, **{"Transfer-Encoding": "chunked"})
            # Where it is refused the server may close before all of it was written.
            with contextlib.suppress(OSError):
                for _ in range(BODY_BYTES // MIB):
                    raw.write(piece)
            highest = max(highest, family_bytes(product))
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, _, found = raw.answer()
                assert 400 <= status < 500, (method, target, status, found[:200])
    assert highest - before < GROWTH_BYTES_MAX


def test_packed_bodies_are_refused_and_never_opened(product: Closed, document: Any) -> None:
    bomb = zlib.compress(b" " * (256 * MIB))
    before = family_bytes(product)
    for method, target in taking_a_body(document):
        for packing in ("gzip", "zstd", "deflate", "br"):
            status, _, found = asked(
                product, method, target, bomb[: 64 * 1024], **{"Content-Encoding": packing}
            )
            assert status == 415, (method, target, packing, status, found[:200])
    assert family_bytes(product) - before < GROWTH_BYTES_MAX


@pytest.mark.parametrize("body", [NESTED, MANY_FIELDS], ids=["nested", "a million fields"])
def test_documents_made_to_exhaust_are_refused(product: Closed, document: Any, body: bytes) -> None:
    before = family_bytes(product)
    for method, target in taking_a_body(document):
        status, fields, found = asked(product, method, target, body)
        assert 400 <= status < 500, (method, target, status, found[:200])
        assert fields["content-type"].startswith("application/problem+json"), (method, target)
    assert family_bytes(product) - before < 2 * GROWTH_BYTES_MAX


def test_a_million_properties_and_keys_are_refused(product: Closed) -> None:
    many = {f"p{number}": "v" for number in range(1_000_000)}
    for message in ({"properties": many}, {"keys": list(many)}):
        body = json.dumps({"messages": [{"body": "x", **message}]}).encode()
        status, _, found = asked(product, "POST", "/api/v1/topics/orders/messages", body)

        answer = json.loads(found)
        statuses = {status, *(one["status"] for one in answer.get("results", ()))}
        assert statuses & {413, 422}, (status, found[:200])
        assert not any(one < 300 for one in statuses - {207}), found[:200]


def test_no_part_of_an_address_leads_anywhere_else(product: Closed, document: Any) -> None:
    parameters = [
        (method, path, name)
        for method, path, _ in operations(document)
        for name in re.findall(r"{([^}]+)}", path)
    ]
    assert len(parameters) > 60
    for (method, path, name), part in itertools.product(parameters, PARTS):
        target = filled(path.replace("{" + name + "}", "\0")).replace("\0", part)
        status, fields, found = asked(product, method, target, b"{}")
        told = (method, target, status, found[:200])
        assert status < 500, told
        assert b"root:" not in found, told
        assert "x-forged" not in fields, told
        if status >= 400:
            assert b"Traceback" not in found, told
            assert str(ROOT).encode() not in found, told
            assert str(product.data).encode() not in found, told


def test_hostile_text_in_every_field_is_one_line_an_event(product: Closed, document: Any) -> None:
    count = len(product.product.lines)
    for method, path, operation in operations(document):
        query = "&".join(
            f"{one['name']}=%0d%0a%1b%5b31m%00{{}}"
            for one in operation.get("parameters", ())
            if one["in"] == "query"
        )
        target = f"{filled(path)}?{query}"
        body = b'{"reason": "\\r\\n\\u001b[31m\\u0000", "name": "\\r\\n{\\"event\\": 1}"}'
        status, _, found = asked(product, method, target, body, **HEADERS)
        assert status < 500, (method, target, status, found[:300])

    deadline = time.monotonic() + 20
    while len(product.product.lines) < count + 60 and time.monotonic() < deadline:
        time.sleep(0.1)
    lines = product.product.lines[count:]
    assert len(lines) >= 60
    for line in lines:
        assert "event" in json.loads(line), line
        assert not any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in line), line


@pytest.mark.parametrize(
    "origin", [None, "https://evil.example", "null", "file://", "http://127.0.0.1.evil.example"]
)
def test_a_socket_from_a_foreign_page_is_refused_at_every_address(
    product: Closed, origin: str | None
) -> None:
    assert websocket_urlpatterns
    for pattern in websocket_urlpatterns:
        headers = {
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }  # fmt: skip
        if origin is not None:
            headers["Origin"] = origin
        with Raw(product) as raw:
            raw.head("GET", f"/{pattern.pattern}?view=overview", **headers)
            assert raw.answer()[0] == 403, pattern


def test_bodies_that_never_come_keep_nobody_else_waiting(product: Closed) -> None:
    slow = [Raw(product) for _ in range(40)]
    for number, raw in enumerate(slow):
        target = "/api/v1/topics/orders/messages" if number % 2 else "/api/v1/alert-rules"
        raw.head("POST", target, **{"Content-Length": "1000"})
        raw.write(b"{")

    started = time.monotonic()
    for _ in range(20):
        assert product.call("GET", "/readyz", token=product.tokens["admin"])[0] == 200
        status, _ = product.call(
            "GET", "/api/v1/groups/billing/offsets", token=product.tokens["admin"]
        )
        assert status == 200

    assert time.monotonic() - started < 30
    for raw in slow:
        raw.__exit__()
