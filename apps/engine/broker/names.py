"""Which names clients may use. Knows the contract's pattern and the reserved prefixes."""

from apps.engine.codec.layout import SYSTEM_PREFIX
from apps.engine.errors import InvalidArgument, InvalidName
from apps.engine.limits import CLIENT_ID_CHARACTERS_MAX, NAME_PATTERN


def check_group_name(name: str) -> None:
    """Raise InvalidName unless clients may use `name` for a group."""
    if NAME_PATTERN.fullmatch(name) is None:
        raise InvalidName("a group name is 1 to 127 of letters, digits, %, |, _ and -")
    if name.startswith(SYSTEM_PREFIX):
        raise InvalidName(f"group names starting with {SYSTEM_PREFIX} belong to the engine")


def check_client_id(client_id: str) -> None:
    """Raise InvalidArgument for a client id that is too long or unprintable; empty is allowed."""
    if len(client_id) > CLIENT_ID_CHARACTERS_MAX:
        raise InvalidArgument(f"client_id is over {CLIENT_ID_CHARACTERS_MAX} characters")
    # Operators read it, and not every database can hold it otherwise.
    if not client_id.isprintable():
        raise InvalidArgument("client_id has characters that cannot be printed")
