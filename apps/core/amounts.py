"""Amounts in words: spans of time as phrases of a picture, sizes. Pure; templates say the same."""

from apps.core.phrases import Phrase, phrase


def span(seconds: int) -> Phrase:
    """Return seconds in the largest unit of which there are two or more."""
    if seconds < 2 * 60:
        return phrase("%(number)s s", number=seconds)
    if seconds < 2 * 3600:
        return phrase("%(number)s min", number=seconds // 60)
    if seconds < 2 * 86_400:
        return phrase("%(number)s h", number=seconds // 3600)
    return phrase("%(number)s d", number=f"{seconds // 86_400:,}")


def ago(seconds: int) -> Phrase:
    """Return how long ago something was that has an age in seconds."""
    return phrase("%(span)s ago", span=span(seconds))


def duration(milliseconds: int) -> Phrase:
    """Return a duration in milliseconds, in seconds from one second on."""
    if milliseconds < 1000:
        return phrase("%(number)s ms", number=milliseconds)
    if milliseconds < 120_000:
        return phrase("%(number)s s", number=f"{milliseconds / 1000:.1f}")
    return span(milliseconds // 1000)


def size(count: int) -> str:
    """Return a number of bytes in the largest binary unit that keeps it at 1 or more."""
    if count < 1024:
        return f"{count} B"
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:,.1f} PiB"
