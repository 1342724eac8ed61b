"""Where an act comes from: door, address and program. Pure: no Django, no request.

Services are told who acts (`by`); the rest of what the audit log keeps of a caller they need not
pass on, because it is the same for all that one request or tick does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum


class Door(StrEnum):
    """What somebody came in by."""

    CONSOLE = "console"
    API = "api"
    ADMIN = "admin"
    COMMAND = "command"
    TASK = "task"
    DATA = "data"
    """Sends, receives and all else that programs do with messages."""
    SOCKET = "socket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an act comes from; empty texts are not known, or make no sense at this door.

    `agent` is what the caller says it is: the header of a browser, the name of a command or task.
    """

    door: Door
    address: str = ""
    agent: str = ""


# Outside a request and a tick somebody has started a program by hand.
current: ContextVar[Origin] = ContextVar("origin", default=Origin(door=Door.COMMAND))  # noqa: B039


@contextmanager
def come_from(origin: Origin) -> Iterator[None]:
    """Have everything in the block come from `origin`."""
    token = current.set(origin)
    try:
        yield
    finally:
        current.reset(token)


def door_of_path(path: str) -> Door:
    """Return which of Django's doors an address belongs to."""
    if path.startswith("/api/"):
        return Door.API
    return Door.ADMIN if path.startswith("/admin/") else Door.CONSOLE
