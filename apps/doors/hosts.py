"""Which Host headers a door answers to. Knows names only."""

from collections.abc import Callable
from functools import lru_cache


def host_check(allowed_hosts: frozenset[str]) -> Callable[[bytes], bool]:
    """Return a test of the Host header: a name that only resolves to this server is not enough.

    Otherwise a page of another origin could point its own name at a server on loopback.
    """
    names = frozenset(host.lower().strip("[]") for host in allowed_hosts)

    @lru_cache(maxsize=256)
    def is_allowed(host: bytes) -> bool:
        text = host.decode("latin-1").lower()
        name, bracket, port = text.removeprefix("[").partition("]")
        if not text.startswith("["):
            name, _, digits = text.partition(":")
            port = f":{digits}" if digits else ""
        elif not bracket:
            return False
        has_good_port = not port or (port[0] == ":" and port[1:].isascii() and port[1:].isdigit())
        return has_good_port and (name in names)

    return (lambda _host: True) if "*" in allowed_hosts else is_allowed
