"""A picture on its way to another process: packed, and cut to a bound of bytes. Pure.

Knows pictures and bytes; no layer, no socket. What travels is a list of parts, each squeezed JSON:

    the picture as the overview is cut, without the rows of locks
    {"names": [name], "columns": [[value]]}     the first rows of locks, by columns; and so on

Rows of locks have two dozen names each, and most of their values are those of the row before: by
columns and squeezed, 2,000 of them are some 60 kB and not 900.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from apps.console import frames
from apps.console.locks import LockRow
from apps.console.snapshot import Snapshot
from apps.core import phrases

LOCKS_BYTES_MAX: Final = 128 * 1024
"""Of the parts with rows of locks together, once a second: some 4,000 of them."""
# Encoding holds the interpreter for each of them at a time, which is a millisecond or two.
PORTION_ROWS: Final = 500
# Level 1 takes a fifth of the time of level 6 and makes a tenth more of it.
_LEVEL: Final = 1


def packed(snapshot: Snapshot) -> list[bytes]:
    """Return the parts of a picture; rows of locks that go beyond the bound are left out."""
    locks = snapshot["locks"]
    head = {**frames.shown(snapshot), "locks": {**locks, "rows": []}}
    return [_squeezed(head), *_portions(locks["rows"])]


def unpacked(parts: Sequence[bytes]) -> Snapshot:
    """Return the picture of its parts, with the phrases in it."""
    head, *portions = map(_opened, parts)
    rows = [row for portion in portions for row in _rows(portion)]
    return cast("Snapshot", {**head, "locks": {**head["locks"], "rows": rows}})


def _portions(rows: Sequence[LockRow]) -> Iterator[bytes]:
    left_bytes = LOCKS_BYTES_MAX
    for start in range(0, len(rows), PORTION_ROWS):
        portion = rows[start : start + PORTION_ROWS]
        names = list(portion[0])
        columns = [[cast("Mapping[str, Any]", row)[name] for row in portion] for name in names]
        part = _squeezed({"names": names, "columns": columns})
        left_bytes -= len(part)
        if left_bytes < 0:
            # Rows without those before them would look like all there are.
            return
        yield part


def _rows(portion: Mapping[str, Any]) -> Iterator[LockRow]:
    names = portion["names"]
    for values in zip(*portion["columns"], strict=True):
        yield cast("LockRow", dict(zip(names, values, strict=True)))


def _squeezed(value: object) -> bytes:
    return zlib.compress(msgspec.json.encode(value, enc_hook=phrases.as_luggage), _LEVEL)


def _opened(part: bytes) -> Any:  # Values of JSON.
    return phrases.unpacked(msgspec.json.decode(zlib.decompress(part)))
