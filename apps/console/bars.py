"""Bars of a picture: how long each is beside the longest. Pure; a bar is the path of an SVG."""

from collections.abc import Sequence

# The box of a bar is so many units wide, and its line lies in the middle of its height.
WIDTH = 100
HEIGHT = 8


def bars(counts: Sequence[int]) -> list[str]:
    """Return a path for each count; none for 0, and what is not 0 can be seen."""
    longest = max(counts, default=0)
    return [
        f"M0 {HEIGHT // 2}H{max(1, round(WIDTH * count / longest))}" if count else ""
        for count in counts
    ]
