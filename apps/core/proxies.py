"""Who is at the far end of a connection: what proxies say of it, where they are to be believed.

Pure: knows ASGI scopes and networks. Whatever is behind this asks the scope alone, and reads no
forwarding header itself.
"""

import ipaddress
import re
from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any

Scope = MutableMapping[str, Any]  # An ASGI dictionary: its shape depends on its type.
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Headers = Sequence[tuple[bytes, bytes]]

FORWARDED = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host")
# Nobody has more proxies one behind the other; what is left of them is not looked at.
HOPS_MAX = 32
_HOST = re.compile(rb"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_SECURE = {"http": "https", "websocket": "wss"}
_PLAIN = {"http": "http", "websocket": "ws"}
_SAID = {b"https": _SECURE, b"wss": _SECURE, b"http": _PLAIN, b"ws": _PLAIN}


class Proxies:
    """The networks whose hosts are believed when they say for whom they ask; none: nobody is."""

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        """Believe the hosts of some networks."""
        self._networks = tuple(networks)

    @property
    def are_any(self) -> bool:
        """Say whether anybody is believed."""
        return bool(self._networks)

    def believes(self, address: str) -> bool:
        """Say whether an address is a proxy's; False for a text that is none."""
        found = _address(address)
        return found is not None and self._holds(found)

    def caller(self, peer: str, forwarded: Sequence[str]) -> str:
        """Return the address a request comes from: the right-most one that is no proxy's.

        `forwarded` are the values of `X-Forwarded-For` in their order. Where a proxy passes on
        what is no address, it is itself the last one that is known. Of proxies alone it is the one
        that is furthest away.
        """
        if not self.believes(peer):
            return peer
        known = peer
        hops = [hop.strip() for value in forwarded for hop in value.split(",")]
        for hop in reversed(hops[-HOPS_MAX:]):
            address = _address(_without_port(hop))
            if address is None:
                return known
            known = str(address)
            if not self._holds(address):
                return known
        return known

    def seen_through(self, scope: Scope) -> Scope:
        """Return a scope as its caller made it; the same where nobody in between is believed.

        `client` is the caller, whose port is not known and said as 0. The scheme is the one of
        `X-Forwarded-Proto`, and `Host` that of `X-Forwarded-Host`; of several the last counts,
        which the nearest proxy wrote. What makes no sense there is as if it were not there.
        """
        client = scope.get("client")
        if not client or not self.believes(client[0]):
            return scope
        headers: Headers = scope["headers"]
        said = {name: [value for key, value in headers if key == name] for name in FORWARDED}
        hops = [value.decode("latin-1") for value in said[b"x-forwarded-for"]]
        caller = self.caller(client[0], hops)
        found = {**scope, "client": (caller, 0) if hops else client}
        schemes = _SAID.get(_last(said[b"x-forwarded-proto"]).lower())
        if schemes is not None:
            found["scheme"] = schemes[scope["type"]]
        host = _last(said[b"x-forwarded-host"])
        if _HOST.fullmatch(host):
            others = [(key, value) for key, value in headers if key != b"host"]
            found["headers"] = [*others, (b"host", host)]
        return found

    def says_scheme(self, scope: Scope) -> bool:
        """Say whether somebody who is believed has said how the caller reached them."""
        client = scope.get("client")
        if not client or not self.believes(client[0]):
            return False
        values = [value for key, value in scope["headers"] if key == b"x-forwarded-proto"]
        return _last(values).lower() in _SAID

    def _holds(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def _last(values: Sequence[bytes]) -> bytes:
    return values[-1].rpartition(b",")[2].strip() if values else b""


def _without_port(hop: str) -> str:
    """Return an address without brackets and port: `1.2.3.4:80`, `[::1]:80`, `[::1]`."""
    if hop.startswith("["):
        address, _, port = hop[1:].partition("]")
        return address if not port or (port[0] == ":" and port[1:].isdigit()) else ""
    address, _, port = hop.partition(":")
    return address if port.isdigit() and "." in address else hop


def _address(text: str) -> Address | None:
    """Return an address, of IPv4 where it is one in IPv6; None for what is none, or has a zone."""
    if "%" in text or len(text) > 45:
        return None
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
