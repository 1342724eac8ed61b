"""Who is believed about callers: the hosts of networks that were named, and about nothing else."""

import ipaddress
import random
from typing import Any

import pytest

from apps.core.proxies import FORWARDED, HOPS_MAX, Proxies
from mqweb import asgi, envaccess
from mqweb.variables import Refused

TRUSTED = Proxies(
    ipaddress.ip_network(text) for text in ("10.0.0.0/8", "192.0.2.7/32", "2001:db8:f::/48")
)


def scope(peer: str, *headers: tuple[str, str], kind: str = "http") -> dict[str, Any]:
    return {
        "type": kind, "scheme": "http" if kind == "http" else "ws", "client": (peer, 4711),
        "headers": [(b"host", b"inner:8000"),
                    *((name.encode(), value.encode()) for name, value in headers)],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("peer", "values", "caller"),
    [
        # Nobody in between, and somebody who only says so.
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["10.0.0.1"], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1, 10.0.0.1"], "203.0.113.9"),
        # One proxy, and what its caller wrote in front.
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["127.0.0.1, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["127.0.0.1", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["10.9.9.9, 198.51.100.1"], "198.51.100.1"),
        # A chain of them, and one that only claims to be one.
        ("10.0.0.1", ["1.1.1.1, 198.51.100.1, 192.0.2.7, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["1.1.1.1, 198.51.100.1", "192.0.2.7", "10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1, 192.0.2.8, 10.0.0.2"], "192.0.2.8"),
        ("10.0.0.1", ["10.0.0.5, 10.0.0.3"], "10.0.0.5"),
        # IPv6, ports and brackets.
        ("2001:db8:f::1", ["2001:db8::5"], "2001:db8::5"),
        ("10.0.0.1", ["[2001:db8::5]:443"], "2001:db8::5"),
        ("10.0.0.1", ["[2001:db8::5]"], "2001:db8::5"),
        ("10.0.0.1", ["198.51.100.1:5021"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1, 10.0.0.2:80, [2001:db8:f::9]:80"], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["::ffff:198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["2001:DB8:0::5"], "2001:db8::5"),
        # What is no address is passed on by the last one that is known.
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1, "], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1, unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["198.51.100.1, <script>, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["fe80::1%eth0"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1:x"], "10.0.0.1"),
        ("10.0.0.1", ["[2001:db8::5]443"], "10.0.0.1"),
        ("10.0.0.1", ["0x7f.1"], "10.0.0.1"),
        ("10.0.0.1", ["010.0.0.1"], "10.0.0.1"),
        ("10.0.0.1", ["1" * 9_000], "10.0.0.1"),
        ("", ["198.51.100.1"], ""),
        ("no address", ["198.51.100.1"], "no address"),
    ],
)  # fmt: skip
def test_the_caller_is_the_right_most_address_that_is_no_proxys(
    peer: str, values: list[str], caller: str
) -> None:
    found = TRUSTED.seen_through(scope(peer, *(("x-forwarded-for", one) for one in values)))

    assert found["client"][0] == caller
    assert TRUSTED.caller(peer, values) == caller


def test_where_nobody_is_trusted_nobody_is_believed() -> None:
    forged = scope(
        "127.0.0.1", ("x-forwarded-for", "10.0.0.1"), ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil.example"),
    )  # fmt: skip

    assert Proxies().seen_through(forged) is forged
    assert not Proxies().says_scheme(forged)


def test_whatever_stands_left_of_the_caller_changes_nothing() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    words = ["10.0.0.1", "127.0.0.1", "x", "", "::1", "1.2.3.4:5", "\x7f", "[", "2001:db8:f::1"]
    for _ in range(2_000):
        forged = ", ".join(chance.choices(words, k=chance.randrange(1, 6)))

        found = TRUSTED.caller("10.0.0.1", [f"{forged}, 198.51.100.1, 10.0.0.2"])

        assert found == "198.51.100.1", forged


def test_a_chain_without_end_is_followed_for_a_while() -> None:
    hops = ["198.51.100.1", *["10.0.0.2"] * 10_000]

    assert TRUSTED.caller("10.0.0.1", [", ".join(hops)]) == "10.0.0.2"
    assert TRUSTED.caller("10.0.0.1", [", ".join(hops[:HOPS_MAX])]) == "198.51.100.1"


@pytest.mark.parametrize(
    ("kind", "values", "scheme"),
    [
        ("http", ["https"], "https"),
        ("http", ["HTTPS"], "https"),
        ("http", ["https, http"], "http"),
        ("http", ["https", "http"], "http"),
        ("http", ["ftp"], "http"),
        ("http", [""], "http"),
        ("websocket", ["https"], "wss"),
        ("websocket", ["wss"], "wss"),
        ("websocket", ["javascript"], "ws"),
    ],
)
def test_the_scheme_is_the_one_the_nearest_proxy_says(
    kind: str, values: list[str], scheme: str
) -> None:
    headers = [("x-forwarded-proto", value) for value in values]

    assert TRUSTED.seen_through(scope("10.0.0.1", *headers, kind=kind))["scheme"] == scheme
    assert TRUSTED.seen_through(scope("9.9.9.9", *headers, kind=kind))["scheme"] != "https"


@pytest.mark.parametrize(
    ("said", "host"),
    [
        ("queue.example.org", b"queue.example.org"),
        ("evil.example, queue.example.org:8443", b"queue.example.org:8443"),
        ("[2001:db8::1]:80", b"[2001:db8::1]:80"),
        ("a b", b"inner:8000"),
        ("evil.example/..", b"inner:8000"),
        ("evil.example:x", b"inner:8000"),
        ("user@evil.example", b"inner:8000"),
        ("", b"inner:8000"),
    ],
)
def test_the_host_is_the_one_that_was_asked_for(said: str, host: bytes) -> None:
    found = TRUSTED.seen_through(scope("10.0.0.1", ("x-forwarded-host", said)))

    assert [value for name, value in found["headers"] if name == b"host"] == [host]


@pytest.mark.parametrize("text", ["10.0.0.1/8", "x", "0.0.0.0/0", "::/0", "*", "10.0.0.0/33"])
def test_what_is_no_network_or_everybody_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="MQWEB_TRUSTED_PROXIES"):
        envaccess.proxies({envaccess.NAME: text})


def test_networks_are_read() -> None:
    found = envaccess.proxies({envaccess.NAME: " 127.0.0.1 , 10.0.0.0/8,2001:db8::/32,"})

    assert [str(one) for one in found] == ["127.0.0.1/32", "10.0.0.0/8", "2001:db8::/32"]
    assert envaccess.proxies({envaccess.NAME: ""}) == ()


# --- the composition root -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "path", "door"),
    [
        ("http", "/api/v1/topics/t/messages", "_door"),
        ("http", "/locks", "_django"),
        ("http", "/api/v1/lane", "_lane"),
        ("websocket", "/ws/console", "_sockets"),
    ],
)
@pytest.mark.parametrize(("peer", "caller"), [("10.0.0.1", "198.51.100.1"), ("9.9.9.9", "9.9.9.9")])
async def test_every_door_is_told_the_same_caller(
    monkeypatch: pytest.MonkeyPatch, kind: str, path: str, door: str, peer: str, caller: str
) -> None:
    seen: list[dict[str, Any]] = []

    async def note(found: dict[str, Any], *_: object) -> None:
        seen.append(found)

    for name in ("_door", "_django", "_lane", "_sockets", "_control"):
        monkeypatch.setattr(asgi, name, note if name == door else None)
    monkeypatch.setattr(asgi, "_proxies", TRUSTED)
    asked = scope(peer, ("x-forwarded-for", "1.1.1.1, 198.51.100.1"), kind=kind)

    await asgi._Application()({**asked, "path": path, "method": "POST"}, None, None)  # type: ignore[arg-type]

    assert [one["client"][0] for one in seen] == [caller]


def test_what_is_forwarded_is_never_answered_from_a_head_that_is_known() -> None:
    asked: list[object] = []

    class Clerk:
        def meaning_of(self, found: object) -> object:
            asked.append(found)
            return "known"

        def answer(self, _requests: list[Any]) -> None:
            raise AssertionError("nothing was asked")

    clerk = asgi._Unforwarded(Clerk())

    for name in FORWARDED:
        assert clerk.meaning_of(scope("10.0.0.1", (name.decode(), "x"))) is None
    assert asked == []
    assert clerk.meaning_of(scope("10.0.0.1")) == "known"
