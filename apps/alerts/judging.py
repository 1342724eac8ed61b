"""How an alert goes on, from one look to the next. Pure: values and times in, a standing out.

A value from the threshold on makes an alert pending, and firing once it has lasted long enough.
One below resolves it once that has lasted. An unknown value changes nothing: time during which
nobody knew counts for neither.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

# Three samples: one that dips below the threshold tells nobody that it is over.
CLEAR_MS = 15_000
# Looks come every 5 s. Over a longer pause nobody knows what the value was in between.
PAUSE_MS_MAX = 30_000


class State(StrEnum):
    """Where an alert is."""

    PENDING = "pending"
    FIRING = "firing"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


OPEN = (State.PENDING, State.FIRING, State.ACKNOWLEDGED)
FIRED = (State.FIRING, State.ACKNOWLEDGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """From which value on, and for how long, a rule fires."""

    threshold: float
    pending_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """An alert at one moment. `since_ms` is when it became pending, wall time.

    `clear_ms` is since when the value is below the threshold, and `unknown_ms` since when nobody
    knows it; both None otherwise.
    """

    state: State
    since_ms: int
    clear_ms: int | None = None
    unknown_ms: int | None = None


def judged(
    before: Standing | None,
    value: float | None,
    terms: Terms,
    *,
    now_ms: int,
    last_ms: int | None = None,
) -> Standing | None:
    """Return how an alert stands after a look; None while there is no alert.

    `last_ms` is when the look before was; None where that is not known.
    """
    if before is not None and last_ms is not None and now_ms - last_ms > PAUSE_MS_MAX:
        before = _unknown(before, last_ms)
    if value is None:
        return None if before is None else _unknown(before, now_ms)
    known = None if before is None else _known_again(before, now_ms)
    if value >= terms.threshold:
        return _above(known, terms, now_ms)
    return None if known is None else _below(known, now_ms)


def gone(before: Standing) -> Standing | None:
    """Return how an alert stands whose subject is not there any more."""
    return None if before.state is State.PENDING else replace(before, state=State.RESOLVED)


def _unknown(before: Standing, now_ms: int) -> Standing:
    return before if before.unknown_ms is not None else replace(before, unknown_ms=now_ms)


def _known_again(before: Standing, now_ms: int) -> Standing:
    if before.unknown_ms is None:
        return before
    blind_ms = max(0, now_ms - before.unknown_ms)
    return replace(
        before,
        unknown_ms=None,
        since_ms=before.since_ms + blind_ms if before.state is State.PENDING else before.since_ms,
        clear_ms=None if before.clear_ms is None else before.clear_ms + blind_ms,
    )


def _above(before: Standing | None, terms: Terms, now_ms: int) -> Standing:
    standing = before or Standing(state=State.PENDING, since_ms=now_ms)
    if standing.state is State.PENDING and now_ms - standing.since_ms >= terms.pending_ms:
        return replace(standing, state=State.FIRING)
    return replace(standing, clear_ms=None)


def _below(before: Standing, now_ms: int) -> Standing | None:
    if before.state is State.PENDING:
        return None
    clear_ms = now_ms if before.clear_ms is None else before.clear_ms
    if now_ms - clear_ms >= CLEAR_MS:
        return replace(before, state=State.RESOLVED, clear_ms=clear_ms)
    return replace(before, clear_ms=clear_ms)
