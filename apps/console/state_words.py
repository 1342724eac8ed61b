"""What states of rows are called on pages. Pure: the words of programs to phrases.

Values and addresses keep the words of programs; a word that is not here is shown as it is.
"""

from collections.abc import Mapping
from typing import Final

from apps.core.phrases import Text, phrase_in

_WORDS: Final[Mapping[str, Text]] = {
    # Dead letters and their jobs.
    "waiting": phrase_in("state", "waiting"),
    "resending": phrase_in("state", "resending"),
    "resent": phrase_in("state", "resent"),
    "discarded": phrase_in("state", "discarded"),
    "gone": phrase_in("state", "gone"),
    "queued": phrase_in("state", "queued"),
    "running": phrase_in("state", "running"),
    "done": phrase_in("state", "done"),
    "cancelled": phrase_in("state", "cancelled"),
    "failed": phrase_in("state", "failed"),
    "interrupted": phrase_in("state", "interrupted"),
    # Transactions that were given up.
    "sent": phrase_in("state", "sent"),
    # Alerts, rules and silences.
    "pending": phrase_in("state", "pending"),
    "firing": phrase_in("state", "firing"),
    "acknowledged": phrase_in("state", "acknowledged"),
    "resolved": phrase_in("state", "resolved"),
    "quiet": phrase_in("state", "quiet"),
    "disabled": phrase_in("state", "disabled"),
    "not looked at": phrase_in("state", "not looked at"),
    "unknown": phrase_in("state", "unknown"),
    "active": phrase_in("state", "active"),
    "to come": phrase_in("state", "to come"),
    "over": phrase_in("state", "over"),
    "ended": phrase_in("state", "ended"),
    "info": phrase_in("severity", "info"),
    "warning": phrase_in("severity", "warning"),
    "critical": phrase_in("severity", "critical"),
    # Offset resets.
    "asked": phrase_in("state", "asked"),
    "applied": phrase_in("state", "applied"),
    "undone": phrase_in("state", "undone"),
    # Locks, and what changed of them.
    "held": phrase_in("state", "held"),
    "expired": phrase_in("state", "expired"),
    "assigned": phrase_in("state", "assigned"),
    "shared": phrase_in("state", "shared"),
    "free": phrase_in("state", "free"),
    "acquired": phrase_in("state", "acquired"),
    "taken over": phrase_in("state", "taken over"),
    "released": phrase_in("state", "released"),
    "forced": phrase_in("state", "forced"),
    # Backlogs.
    "rising": phrase_in("state", "rising"),
    "steady": phrase_in("state", "steady"),
    "falling": phrase_in("state", "falling"),
    # Groups of the list.
    "ordered": phrase_in("group", "ordered"),
    "concurrent": phrase_in("group", "concurrent"),
    # What is told of audit entries.
    "refused": phrase_in("state", "refused"),
    "added": phrase_in("state", "added"),
    "removed": phrase_in("state", "removed"),
    "changed": phrase_in("state", "changed"),
}


def state(word: str) -> Text:
    """Return what a state is called."""
    return _WORDS.get(word, word)
