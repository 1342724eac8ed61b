"""What the door itself refuses, before the engine is asked. Knows codes and sentences."""

from collections.abc import Mapping, Sequence

from apps.core.problems import KINDS


class Refusal(Exception):
    """A request that does not reach the engine; `kind` has status, title and code."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """Keep what the problem document will say; raise KeyError for an unknown code."""
        super().__init__(detail)
        self.kind = KINDS[code]
        self.errors = errors
        self.headers = headers


class ClientGone(Exception):
    """The client closed the connection; nobody is left to answer."""


def invalid(pointer: str, detail: str) -> Refusal:
    """Return the refusal of one value.

    `pointer` is a JSON pointer into the body, or `?name` for a query parameter.
    """
    return Refusal("invalid_argument", detail, errors=({"pointer": pointer, "detail": detail},))
