"""Who had which lock when, as bars and marks of a drawing. Pure: knows lines of history and times.

A lane is a queue of a group. A bar lasts from when a lock was granted to the next line about it:
given back, taken away, or the lease was noticed to be over. That is noticed by a broker that is
up; without such a line before the next grant, the lease ran out somewhere in the bar. Refusals
are gathered into spells. Positions are thousandths of the drawn span.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.console import engine_words
from apps.console.templatetags import mq
from apps.core.moments import moment
from apps.engine.grouptypes import LockChange

WIDTH: Final = 1_000
COLOURS: Final = 6
# So thin a bar or mark can still be seen and pointed at.
_THIN: Final = 2

Place = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A change of a lock: when (wall time), what, and who had it before and has it after."""

    at_ms: int
    place: Place
    change: LockChange
    owner: str
    previous_owner: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """An owner's time. `colour` numbers owners in the order they come; `title` says it in words."""

    x: int
    width: int
    owner: str
    colour: int
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment in a lane: taken over, released, or taken away by an operator."""

    x: int
    kind: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A time in which a lock was refused, how often, to how many clients, and on whose behalf."""

    at_ms: int
    length_ms: int
    place: Place
    owner: str
    count: int
    clients: int
    client_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A spell as it is drawn."""

    x: int
    width: int
    title: str


@dataclass(slots=True, kw_only=True)
class Lane:
    """One queue, with who has its lock at the end of the span; empty where nobody does."""

    topic: str
    queue: int
    bars: list[Bar] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    strips: list[Strip] = field(default_factory=list)
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Lanes by topic and queue, and the owners in them with their colours."""

    lanes: Sequence[Lane]
    owners: Sequence[tuple[str, int]]


def timeline_of(
    lines: Iterable[Line], spells: Iterable[Spell] = (), *, from_ms: int, to_ms: int
) -> Timeline:
    """Draw lines, oldest first; what came before `from_ms` says who had a lock at the begin."""
    lanes: dict[Place, Lane] = {}
    held: dict[Place, tuple[str, int]] = {}
    colours: dict[str, int] = {}

    def x_of(at_ms: int) -> int:
        span_ms = max(1, to_ms - from_ms)
        return max(0, min(WIDTH, (at_ms - from_ms) * WIDTH // span_ms))

    def end(place: Place, until_ms: int) -> None:
        owner, since_ms = held.pop(place, ("", 0))
        if owner and until_ms > from_ms:
            x = x_of(since_ms)
            lanes[place].bars.append(
                Bar(
                    x=x,
                    width=max(_THIN, x_of(until_ms) - x),
                    owner=owner,
                    colour=colours.setdefault(owner, len(colours) % COLOURS),
                    title=_("%(owner)s: %(begin)s to %(end)s")
                    % {"owner": owner, "begin": _when(since_ms), "end": _when(until_ms)},
                )
            )

    for line in lines:
        topic, queue = line.place
        lane = lanes.setdefault(line.place, Lane(topic=topic, queue=queue))
        end(line.place, line.at_ms)
        if line.owner:
            held[line.place] = (line.owner, line.at_ms)
        if line.at_ms >= from_ms and line.change is not LockChange.ACQUIRED:
            lane.marks.append(Mark(x=x_of(line.at_ms), kind=line.change.value, title=_said(line)))
    for spell in spells:
        topic, queue = spell.place
        lane = lanes.setdefault(spell.place, Lane(topic=topic, queue=queue))
        x = x_of(spell.at_ms)
        width = max(_THIN, x_of(spell.at_ms + spell.length_ms) - x)
        lane.strips.append(Strip(x=x, width=width, title=refused_text(spell)))
    for place, (owner, _since_ms) in list(held.items()):
        lanes[place].owner = owner
        end(place, to_ms)
    ordered = [lanes[place] for place in sorted(lanes)]
    return Timeline(lanes=ordered, owners=sorted(colours.items(), key=lambda item: item[1]))


def _said(line: Line) -> str:
    names: Mapping[LockChange, str] = {
        LockChange.TAKEN_OVER: _("taken over by %(owner)s from %(before)s"),
        LockChange.EXPIRED: _("not renewed by %(before)s: its lease was over"),
        LockChange.RELEASED: _("given back by %(before)s"),
        LockChange.FORCED: _("taken from %(before)s"),
    }
    text = names[line.change] % {"owner": line.owner, "before": line.previous_owner}
    said = f"{_when(line.at_ms)} {text}"
    return f"{said}: {engine_words.reason(line.reason)}" if line.reason else said


def refused_text(spell: Spell) -> str:
    """Return a sentence about a spell: when, how often, who was refused, and who had the lock."""
    who = spell.client_id or _("several clients")
    if spell.clients > 1:
        who = _("%(count)s clients, %(one)s among them") % {"count": spell.clients, "one": who}
    text = ngettext(
        "refused once to %(who)s while %(owner)s had it",
        "refused %(count)s times to %(who)s while %(owner)s had it",
        spell.count,
    ) % {"count": spell.count, "who": who, "owner": spell.owner}
    return f"{_when(spell.at_ms)} {text}"


def _when(at_ms: int) -> str:
    return mq.moment(moment(at_ms))
