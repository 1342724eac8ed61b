"""The words that figures and scripts put on pages, in the viewer's language. Knows no figure.

`templatetags/mq.py` and the modules under static/console say the same with them: each page hands
its scripts these words, so that no text of a script is in one language alone.
"""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

WORDS: dict[str, Promise] = {
    "millions": gettext_lazy("%(number)s M"),
    "billions": gettext_lazy("%(number)s B"),
    "milliseconds": gettext_lazy("%(number)s ms"),
    "seconds": gettext_lazy("%(number)s s"),
    "minutes": gettext_lazy("%(number)s min"),
    "hours": gettext_lazy("%(number)s h"),
    "days": gettext_lazy("%(number)s d"),
    "ago": gettext_lazy("%(span)s ago"),
    "ahead": gettext_lazy("in %(span)s"),
    "late": gettext_lazy("late by %(span)s"),
    "now": gettext_lazy("now"),
    "done": gettext_lazy("done"),
    "live": gettext_lazy("Live"),
    "stale": gettext_lazy("Stale since"),
    "reconnecting": gettext_lazy("Reconnecting, as of"),
    "still": gettext_lazy("As of"),
    "rates": gettext_lazy("Messages sent and consumed per second over the last five minutes"),
    "backlog": gettext_lazy("Messages behind over the last five minutes, all groups"),
    "browser_zone": gettext_lazy("%(zone)s, this browser's"),
}


def said(word: str, **values: str) -> str:
    """Return a word in the viewer's language, its placeholders filled."""
    return str(WORDS[word]) % values


def words_of_scripts() -> dict[str, str]:
    """Return all of them in the viewer's language, with their placeholders."""
    return {word: str(text) for word, text in WORDS.items()}
