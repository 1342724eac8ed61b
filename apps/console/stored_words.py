"""What rows hold in English and in the same words each time, as phrases. Pure.

Tasks have no reader, so what they write down is English. It is put into words when a page shows
it; what is not here, such as the text of an exception, is shown as it is.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from apps.alerts.words import resolution
from apps.core.phrases import Text, phrase

_SENTENCES: Final[Mapping[str, Text]] = {
    # Attempts to tell of an alert.
    "the channel is disabled": phrase("the channel is disabled"),
    "answered with a redirect, which is not followed": phrase(
        "answered with a redirect, which is not followed"
    ),
    "no mail server is set (MQWEB_MAIL_HOST)": phrase("no mail server is set (MQWEB_MAIL_HOST)"),
    # Runs of pipelines.
    "its worker was killed, or lost the database for longer than its lease": phrase(
        "its worker was killed, or lost the database for longer than its lease"
    ),
    # Dead letters and their jobs.
    "it lies in the log of another store": phrase("it lies in the log of another store"),
    "takes no messages, or is not there": phrase("takes no messages, or is not there"),
    # Entries of the audit log.
    "not written while the database was away": phrase("not written while the database was away"),
    "further ones of the same minute": phrase("further ones of the same minute"),
    "nobody holds the lock": phrase("nobody holds the lock"),
    "name or password is wrong": phrase("name or password is wrong"),
    "too many wrong passwords": phrase("too many wrong passwords"),
    "nobody is signed in": phrase("nobody is signed in"),
}

_PATTERNS: Final[tuple[tuple[re.Pattern[str], Callable[[str], Text]], ...]] = (
    (re.compile(r"answered (\d{3})"), lambda found: phrase("answered %(status)s", status=found)),
    (
        re.compile(r"to (\d+) more topics"),
        lambda found: phrase("to %(count)s more topics", count=found),
    ),
    # Targets of offset resets.
    (re.compile(r"time (\d[\d:.TZ+-]+)"), lambda found: phrase("time %(time)s", time=found)),
    (re.compile(r"offset (\d+)"), lambda found: phrase("offset %(offset)s", offset=found)),
    (re.compile(r"shift (-?\d+)"), lambda found: phrase("shift %(count)s", count=found)),
    (re.compile(r"copy from (\S+)"), lambda found: phrase("copy from %(group)s", group=found)),
    (re.compile(r"undo of (\d+)"), lambda found: phrase("undo of %(number)s", number=found)),
)


def stored(text: str) -> Text:
    """Return a text of a row as people read it."""
    if text in _SENTENCES:
        return _SENTENCES[text]
    for pattern, phrase_of in _PATTERNS:
        if found := pattern.fullmatch(text):
            return phrase_of(found[1])
    return resolution(text)
