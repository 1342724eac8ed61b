"""What is in force, by the variables it was read from, as a person would write it. Reads none."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from mqweb.envvalues import UNITS_MS

# As RocketMQ writes them; what is in other lists is parted by commas.
_BY_SEMICOLON = {"MQWEB_RETENTION_HOURS"}
# Words of choices that are kept as whether they hold; all others are on and off.
_WORDS = {"MQWEB_LAKE_BODIES": ("drop", "keep")}


def named(parsed: Any, names: Collection[str], part: str = "") -> Iterator[tuple[str, str]]:
    """Yield each field of parsed variables with the name of its variable and its text.

    Fields of parts come where their part is. An empty text is "not set". Raises KeyError for a
    field that no name fits.
    """
    for field in fields(parsed):
        value = getattr(parsed, field.name)
        if is_dataclass(value):
            yield from named(value, names, field.name)
            continue
        name = _name_of(field.name, part, names)
        is_duration = "_ms" in field.name and not name.endswith("_MS")
        yield name, _duration(value) if is_duration else _text_of(name, value)


def _name_of(field: str, part: str, names: Collection[str]) -> str:
    # The name of a part first: the gRPC door has a port as well.
    for stem in (f"{part}_{field}", field):
        for word in (stem, stem.replace("_ms", "")):
            for name in (f"MQWEB_{word.upper()}", word.upper()):
                if name in names:
                    return name
    raise KeyError(field)


def _text_of(name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return _WORDS.get(name, ("off", "on"))[value]
    if isinstance(value, Mapping):
        return ";".join(f"{key}={setting}" for key, setting in value.items())
    if isinstance(value, tuple | frozenset):
        texts = map(str, value if isinstance(value, tuple) else sorted(value))
        return (";" if name in _BY_SEMICOLON else ",").join(texts)
    return str(value)


def _duration(value: Any) -> str:
    """Return a duration, or several, in the largest unit that each is a whole number of."""
    if isinstance(value, tuple):
        return " ".join(map(_duration, value))
    count, unit = min((value // ms, unit) for unit, ms in UNITS_MS.items() if value % ms == 0)
    return f"{count}{unit}"
