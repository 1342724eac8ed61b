"""Refusals put together, so that nobody floods the audit log by being refused. Knows no row.

The first of a minute is told at once, all further ones of the same kind by one entry with a count
when the minute is over. What is counted and not yet written is lost if the process is killed; that
there were refusals is not.
"""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from apps.core.origins import Origin

MINUTE_MS = 60_000
# Kinds told apart in a minute; what is beyond them is told together, whoever it was.
KINDS_MAX = 100
NAMES_MAX = 10
# So many wait for a database that is away; of further ones only the number is known.
WAITING_MAX = 1_000
OTHERS = "others"
OTHERS_ACT = "access.refused"

Key = tuple[str, str, str]
"""Who was refused which act with which code."""

_NAMELESS: Mapping[str, Any] = {
    "by": OTHERS,
    "act": OTHERS_ACT,
    "kind": "",
    "name": "",
    "code": OTHERS,
    "detail": "not written while the database was away",
    "reason": "",
    "names": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Something that was not done, and why; `count` of them where they were put together."""

    by: str
    act: str
    kind: str
    name: str
    code: str
    detail: str = ""
    reason: str = ""
    origin: Origin
    request_id: str = ""
    count: int = 1
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class _Counted:
    last: Refusal
    count: int = 0
    names: dict[str, None] = field(default_factory=dict)


class Tally:
    """Counts refusals of the running minute, and keeps what is to be written; for any thread."""

    def __init__(self) -> None:
        """Know of none."""
        self._lock = threading.Lock()
        self._minute = 0
        self._counted: dict[Key, _Counted] = {}
        self._waiting: deque[Refusal] = deque()
        self._left_out = 0

    def note(self, refusal: Refusal, *, now_ms: int) -> None:
        """Count a refusal; the first of its kind in a minute is to be written as it is."""
        with self._lock:
            self._end_minute(now_ms)
            key = (refusal.by, refusal.act, refusal.code)
            counted = self._counted.get(key)
            if counted is None and len(self._counted) < KINDS_MAX:
                self._counted[key] = _Counted(refusal)
                self._wait(refusal)
                return
            if counted is None:
                key = (OTHERS, OTHERS_ACT, OTHERS)
                counted = self._counted.setdefault(key, _Counted(refusal))
            counted.last = refusal
            counted.count += 1
            if len(counted.names) < NAMES_MAX:
                counted.names[refusal.name] = None

    def take(self, *, now_ms: int, is_last: bool = False) -> list[Refusal]:
        """Return what is to be written: what came first, and counts of minutes that are over.

        With `is_last` counts of the running minute as well.
        """
        with self._lock:
            self._end_minute(now_ms, is_last=is_last)
            found = list(self._waiting)
            self._waiting.clear()
            if self._left_out and found:
                found.append(replace(found[-1], **_NAMELESS, count=self._left_out))
                self._left_out = 0
            return found

    def give_back(self, refusals: Sequence[Refusal]) -> None:
        """Keep what could not be written for the next time."""
        with self._lock:
            later = list(self._waiting)
            self._waiting.clear()
            for refusal in (*refusals, *later):
                self._wait(refusal)

    def _wait(self, refusal: Refusal) -> None:
        if len(self._waiting) < WAITING_MAX:
            self._waiting.append(refusal)
        else:
            self._left_out += refusal.count

    def _end_minute(self, now_ms: int, *, is_last: bool = False) -> None:
        minute = now_ms // MINUTE_MS
        # A clock that was set back ends a minute as well.
        if minute == self._minute and not is_last:
            return
        self._minute = minute
        counted, self._counted = self._counted, {}
        for key, one in counted.items():
            if one.count:
                self._wait(_together(key, one))


def _together(key: Key, counted: _Counted) -> Refusal:
    by, act, code = key
    last = counted.last
    is_one = len(counted.names) == 1
    return Refusal(
        by=by,
        act=act,
        kind=last.kind,
        name=last.name if is_one else "",
        code=code,
        detail="further ones of the same minute",
        origin=last.origin,
        count=counted.count,
        names=() if is_one else tuple(counted.names),
    )
