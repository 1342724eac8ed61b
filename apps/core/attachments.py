"""Answers that a browser keeps as files. Knows no rows and no format.

Content is streamed, so that nothing is held of a large one.
"""

from collections.abc import AsyncIterator

from django.http import StreamingHttpResponse

# What a spreadsheet takes for the begin of a formula.
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n")


def attachment(
    pieces: AsyncIterator[str] | AsyncIterator[bytes], *, media_type: str, name: str
) -> StreamingHttpResponse:
    """Return an answer of pieces that come one after the other; `name` is safe to be quoted."""
    return StreamingHttpResponse(
        pieces,
        content_type=media_type,
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Content-Type-Options": "nosniff",
        },
    )


def safe_cell(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA_BEGINS) else text
