"""Answers that a browser keeps as files. Knows no rows and no format.

Content is streamed, so that nothing is held of a large one.
"""

import re
from collections.abc import AsyncIterator

from django.http import StreamingHttpResponse

# What a spreadsheet takes for the begin of a formula.
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n")

# What every file system, and every reader of a header, takes as it is.
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")
_NAME_CHARACTERS_MAX = 180


def attachment(
    pieces: AsyncIterator[str] | AsyncIterator[bytes], *, media_type: str, name: str
) -> StreamingHttpResponse:
    """Return an answer of pieces that come one after the other."""
    return StreamingHttpResponse(
        pieces,
        content_type=media_type,
        headers=headers(name),
    )


def headers(name: str) -> dict[str, str]:
    """Return the headers that make a browser keep an answer under a name, whatever is in that.

    Characters beyond letters, digits, dot, dash and underscore of ASCII become underscores: a
    control character in a header would end the connection without an answer. The end is kept, with
    the ending of the file.
    """
    plain = _NOT_PLAIN.sub("_", name[-_NAME_CHARACTERS_MAX:])
    return {
        "Content-Disposition": f'attachment; filename="{plain}"',
        "X-Content-Type-Options": "nosniff",
    }


def safe_cell(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA_BEGINS) else text
