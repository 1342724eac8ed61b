"""What single values of variables may be: numbers, durations, hours, paths, words, URLs. Pure."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from mqweb.variables import Refused

UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# Ten years: nobody means more, and due times stay well inside the year 9999.
DURATION_MS_MAX = 3_660 * UNITS_MS["d"]


def integer(values: Mapping[str, str], name: str, lowest: int, highest: int) -> int:
    """Return a whole number within limits; raise Refused."""
    value = values[name]
    # Longer digit strings are refused before int() would have to read them.
    if not (value.isascii() and value.isdigit() and len(value) <= 12):
        raise Refused(f"{name}={value!r}: must be a whole number")
    if not lowest <= int(value) <= highest:
        raise Refused(f"{name}={value}: must be from {lowest} to {highest}")
    return int(value)


def duration_ms(name: str, text: str) -> int:
    """Return a duration written as a number and s, m, h or d; raise Refused."""
    found = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", text, re.ASCII)
    if found is None:
        raise Refused(f"{name}: {text[:40]!r} must be a number and s, m, h or d, such as 30s")
    length_ms = int(found[1]) * UNITS_MS[found[2]]
    if length_ms > DURATION_MS_MAX:
        raise Refused(f"{name}: {text} is longer than {DURATION_MS_MAX // UNITS_MS['d']}d")
    return length_ms


def hours(name: str, text: str) -> tuple[int, ...]:
    """Return hours of a day as RocketMQ writes them: `04` or `03;04`."""
    words = [word.strip() for word in text.split(";") if word.strip()]
    if not words or not all(re.fullmatch(r"[01]?[0-9]|2[0-3]", word, re.ASCII) for word in words):
        raise Refused(f"{name}={text[:40]!r}: must be hours from 0 to 23, such as 04 or 03;04")
    return tuple(sorted({int(word) for word in words}))


def path(value: str) -> Path | None:
    """Return a path, whole; None for an empty text."""
    return Path(value).expanduser().resolve() if value else None


def choice(values: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """Return one of some words; raise Refused."""
    value = values[name]
    if value not in choices:
        raise Refused(f"{name}={value!r}: must be one of {', '.join(choices)}")
    return value


def url(values: Mapping[str, str], name: str, schemes: tuple[str, ...]) -> str | None:
    """Return a URL of one of some schemes, or None for an empty text; raise Refused."""
    value = values[name]
    if not value:
        return None
    # The value may hold a password, so a refusal must not repeat it.
    if urlsplit(value).scheme not in schemes:
        raise Refused(
            f"{name}: must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}"
        )
    return value


def checked(values: Mapping[str, str], name: str, parse: Callable[[str], object]) -> str:
    """Return a value that a parser takes; raise Refused with what the parser says."""
    try:
        parse(values[name])
    except ValueError as error:
        raise Refused(f"{name}: {error}") from error
    return values[name]
