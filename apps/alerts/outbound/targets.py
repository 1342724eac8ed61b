"""Which address a webhook may go to. Pure but for the names it is given to resolve.

An operator's text decides where this server connects to, so it is read by a grammar of its own:
what two readers could understand differently is refused, not interpreted. A name is resolved once,
every address it has must be allowed, and the connection goes to one of those.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from apps.core.phrases import sentence

URL_CHARACTERS_MAX = 2_000
_URL = re.compile(r"(https?)://([^/?#@\\]{1,260})(/[^#\\]*)?", re.ASCII)
_PRINTABLE = re.compile(r"[!-~]+", re.ASCII)
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
# The last label has a letter first: what ends in a number is an address to some resolvers.
_NAME = re.compile(rf"(?:{_LABEL}\.)*[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?", re.ASCII)
_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_DEFAULT_PORTS = {"https": 443, "http": 80}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Ranges that lead to other networks, whose addresses inside nobody checks; and what clouds answer
# their machines' questions at, in an address that looks public.
_REFUSED_NETWORKS = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "100.64.0.0/10", "168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24",
        "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
        "::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23",
        "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
)  # fmt: skip


class RefusedTarget(ValueError):
    """An address that is not posted to; the text says why and names no secret part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What may be posted to.

    `hosts` are the only names allowed, with those below them; none allows every public one.
    `trusted` are hosts, or hosts with a port, where everything is allowed: any port, plain HTTP,
    and addresses of this network.
    """

    hosts: tuple[str, ...] = ()
    trusted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An address that was read: where to connect to, and what to ask for there."""

    scheme: str
    host: str
    port: int
    path: str
    is_trusted: bool

    @property
    def authority(self) -> str:
        """Return host and port as the header says them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def parsed(url: str, policy: Policy) -> Target:
    """Read an address; raise RefusedTarget for what is not one, or not allowed."""
    if len(url) > URL_CHARACTERS_MAX or not _PRINTABLE.fullmatch(url):
        raise RefusedTarget(
            sentence("an address has printable ASCII characters only, 2,000 at most")
        )
    found = _URL.fullmatch(url)
    if found is None:
        raise RefusedTarget(sentence("an address begins with https:// and a host, without a user"))
    scheme, authority, path = found[1], found[2], found[3] or "/"
    host, port_text = _split(authority)
    host = _host(host)
    if port_text is not None and not (_PORT.fullmatch(port_text) and int(port_text) <= 65_535):
        raise RefusedTarget(sentence("the port is a number from 1 to 65535"))
    port = _DEFAULT_PORTS[scheme] if port_text is None else int(port_text)
    is_trusted = bool({host, f"{host}:{port}"} & policy.trusted)
    if not is_trusted:
        if scheme != "https" or port != _DEFAULT_PORTS["https"]:
            raise RefusedTarget(
                sentence("only https at port 443 is allowed (MQWEB_WEBHOOK_TRUSTED)")
            )
        if policy.hosts and not any(
            host == allowed or host.endswith(f".{allowed}") for allowed in policy.hosts
        ):
            raise RefusedTarget(
                sentence("%(host)s is not among the hosts allowed (MQWEB_WEBHOOK_HOSTS)", host=host)
            )
        literal = _literal(host)
        if literal is not None:
            check_public(literal)
    return Target(scheme=scheme, host=host, port=port, path=path, is_trusted=is_trusted)


def resolved(target: Target, resolve: Callable[[str, int], Sequence[str]]) -> list[str]:
    """Return the addresses of a target, all of which are allowed.

    `resolve` gives the addresses of a name. Raises RefusedTarget where there is none, or where one
    of them is not public and the target is not trusted: which one is taken must not be chance.
    """
    addresses = [_address(text) for text in resolve(target.host, target.port)]
    if not addresses:
        raise RefusedTarget(sentence("%(host)s has no address", host=target.host))
    if not target.is_trusted:
        for address in addresses:
            check_public(address)
    return [str(address) for address in addresses]


def check_public(address: Address) -> None:
    """Raise RefusedTarget for an address that is not everybody's."""
    is_refused = any(
        address in network for network in _REFUSED_NETWORKS if network.version == address.version
    )
    if is_refused or not address.is_global or address.is_multicast or address.is_reserved:
        raise RefusedTarget(
            sentence(
                "%(address)s is not a public address; MQWEB_WEBHOOK_TRUSTED names those allowed",
                address=str(address),
            )
        )


def shown(url: str) -> str:
    """Return as much of an address as anybody may see: what follows the host may be a secret."""
    found = _URL.fullmatch(url)
    return f"{found[1]}://{found[2]}/…" if found else "…"


def _split(authority: str) -> tuple[str, str | None]:
    if authority.startswith("["):
        host, is_closed, rest = authority[1:].partition("]")
        if not is_closed or (rest and not rest.startswith(":")):
            raise RefusedTarget(sentence("the address in brackets does not end"))
        return f"[{host}]", rest[1:] if rest else None
    host, has_port, port = authority.partition(":")
    return host, port if has_port else None


def _host(text: str) -> str:
    if text.startswith("["):
        try:
            return str(ipaddress.IPv6Address(text[1:-1])) if "%" not in text else _refuse(text)
        except ipaddress.AddressValueError:
            return _refuse(text)
    host = text.lower()
    try:
        # Four whole numbers and no other way of writing them.
        return str(ipaddress.IPv4Address(host))
    except ipaddress.AddressValueError:
        return host if len(host) <= 253 and _NAME.fullmatch(host) else _refuse(text)


def _refuse(text: str) -> str:
    raise RefusedTarget(
        sentence("%(text)s is neither a host name nor an address", text=repr(text[:80]))
    )


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _address(text: str) -> Address:
    # Resolvers say the zone of a link-local address, which is refused all the same.
    return ipaddress.ip_address(text.partition("%")[0])
