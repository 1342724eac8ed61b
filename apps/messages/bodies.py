"""Bodies as a page shows them: inflated within limits, as text, JSON, hex or base64.

Pure: knows bytes. A body is anybody's, so nothing here takes more memory or time than it says.
"""

import base64
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from apps.engine.limits import KIB, MIB

# A page shows the begin of a body; the download has all of it.
CHARACTERS_SHOWN = 64 * KIB
HEX_BYTES_SHOWN = 8 * KIB
BASE64_BYTES_SHOWN = 48 * KIB
# What a body may come to when it is inflated, and how many times its own length.
INFLATED_BYTES_MAX = 8 * MIB
INFLATED_RATIO_MAX = 200
# A short body of one repeated letter is no bomb.
_RATIO_COUNTS_FROM = 256 * KIB
_JSON_BYTES_MAX = MIB
_PIECE = 64 * KIB

_GZIP = b"\x1f\x8b\x08"
_ZSTD = b"\x28\xb5\x2f\xfd"
_LZ4 = b"\x04\x22\x4d\x18"
_HEX_COLUMNS = 16


class View(StrEnum):
    """How a body is shown."""

    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"


class Packing(StrEnum):
    """How a body is compressed."""

    NONE = ""
    ZLIB = "zlib"
    GZIP = "gzip"
    ZSTD = "zstd"
    LZ4 = "lz4"


class Trouble(StrEnum):
    """Why a body was not inflated to its end."""

    NONE = ""
    TOO_LONG = "too_long"
    BOMB = "bomb"
    DAMAGED = "damaged"
    NOT_SUPPORTED = "not_supported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A body as far as it was inflated; `content` is the body itself where it was not."""

    packing: Packing
    content: bytes
    stored_bytes: int
    trouble: Trouble = Trouble.NONE

    @property
    def is_inflated(self) -> bool:
        """Say whether `content` is not what the log has."""
        return self.packing in _INFLATED and self.trouble in _BEGUN


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A body in one view: the begin of it, and what there is of it in all."""

    view: View
    text: str
    is_cut: bool
    size_bytes: int
    views: tuple[View, ...]
    """In which ways it can be shown."""


_INFLATED = (Packing.ZLIB, Packing.GZIP)
_BEGUN = (Trouble.NONE, Trouble.TOO_LONG, Trouble.BOMB)


def packing_of(body: bytes) -> Packing:
    """Return how a body is compressed, by how it begins; NONE for what does not look so."""
    if body.startswith(_GZIP):
        return Packing.GZIP
    if body.startswith(_ZSTD):
        return Packing.ZSTD
    if body.startswith(_LZ4):
        return Packing.LZ4
    # Deflate in a window of up to 32 KiB, and a checksum over the two bytes.
    is_zlib = len(body) > 2 and body[0] == 0x78 and (body[0] << 8 | body[1]) % 31 == 0
    return Packing.ZLIB if is_zlib and not body[1] & 0x20 else Packing.NONE


def opened(body: bytes) -> Opened:
    """Inflate a body that looks compressed, no further than it may; see the limits above."""
    packing = packing_of(body)
    if packing is Packing.NONE:
        return Opened(packing=packing, content=body, stored_bytes=len(body))
    if packing not in _INFLATED:
        return Opened(
            packing=packing,
            content=body,
            stored_bytes=len(body),
            trouble=Trouble.NOT_SUPPORTED,
        )
    try:
        content, trouble = _inflated(body)
    except zlib.error:
        if packing is Packing.ZLIB:
            # Two bytes are little to go by: it is most likely no zlib at all.
            return Opened(packing=Packing.NONE, content=body, stored_bytes=len(body))
        content, trouble = body, Trouble.DAMAGED
    return Opened(packing=packing, content=content, stored_bytes=len(body), trouble=trouble)


def _inflated(body: bytes) -> tuple[bytes, Trouble]:
    """Return what a body holds, and why not all of it. Raises zlib.error for what is damaged."""
    ratio_bytes_max = max(_RATIO_COUNTS_FROM, len(body) * INFLATED_RATIO_MAX)
    bytes_max = min(INFLATED_BYTES_MAX, ratio_bytes_max)
    # Gzip or zlib, whichever it is.
    inflating = zlib.decompressobj(wbits=47)
    pieces: list[bytes] = []
    size_bytes, left = 0, body
    while not inflating.eof and size_bytes <= bytes_max:
        piece = inflating.decompress(left, min(_PIECE, bytes_max - size_bytes + 1))
        left = inflating.unconsumed_tail
        if not piece and not left:
            break
        pieces.append(piece)
        size_bytes += len(piece)
    content = b"".join(pieces)
    if size_bytes > bytes_max:
        is_bomb = bytes_max == ratio_bytes_max
        return content[:bytes_max], Trouble.BOMB if is_bomb else Trouble.TOO_LONG
    if not inflating.eof:
        raise zlib.error("the data ends early")
    return content, Trouble.NONE


def shown(content: bytes, wanted: View | None = None) -> Shown:
    """Return a body in the view that is wanted, or in the one that fits it best."""
    text = _text(content)
    pretty = None if text is None else _pretty(content)
    views = tuple(
        view
        for view in View
        if not (view is View.TEXT and text is None) and not (view is View.JSON and pretty is None)
    )
    if wanted not in views:
        wanted = next(view for view in (View.JSON, View.TEXT, View.HEX) if view in views)
    if wanted is View.JSON:
        whole = pretty or ""
    elif wanted is View.TEXT:
        whole = text or ""
    else:
        written, bytes_max = _WRITTEN[wanted]
        return Shown(
            view=wanted,
            text=written(content[:bytes_max]),
            is_cut=len(content) > bytes_max,
            size_bytes=len(content),
            views=views,
        )
    return Shown(
        view=wanted,
        text=whole[:CHARACTERS_SHOWN],
        is_cut=len(whole) > CHARACTERS_SHOWN,
        size_bytes=len(content),
        views=views,
    )


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _pretty(content: bytes) -> str | None:
    """Return JSON with a line for each value, numbers as they were written; None for no JSON."""
    if not content or len(content) > _JSON_BYTES_MAX or content.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return msgspec.json.format(content, indent=2).decode()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _hex(content: bytes) -> str:
    lines = []
    for start in range(0, len(content), _HEX_COLUMNS):
        row = content[start : start + _HEX_COLUMNS]
        readable = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<47}  {readable}")
    return "\n".join(lines)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


_WRITTEN: dict[View, tuple[Callable[[bytes], str], int]] = {
    View.HEX: (_hex, HEX_BYTES_SHOWN),
    View.BASE64: (_base64, BASE64_BYTES_SHOWN),
}
