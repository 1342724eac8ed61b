"""Pages of a list of which a reader is shown a part: read on until something of it is found. Pure.

For lists that cannot be asked for one reader's rows; those of a database are.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Place = TypeVar("Place")

# What nobody may see must not be read without end for whoever asks for it.
LOOKS_MAX = 20


def sifted(
    read: Callable[[Place | None], tuple[Sequence[Item], Place | None]],
    is_shown: Callable[[Item], bool],
    *,
    start: Place | None,
) -> tuple[list[Item], Place | None]:
    """Return what is shown of the first page that has something, and where the next one begins.

    `read` returns a page from a place on, and the place behind it, None at the end. The answer may
    be shorter than a page; after 20 pages without anything it is empty, and goes on all the same.
    """
    place = start
    for _ in range(LOOKS_MAX):
        found, place = read(place)
        shown = [item for item in found if is_shown(item)]
        if shown or place is None:
            return shown, place
    return [], place
