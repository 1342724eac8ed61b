"""INV-15: a live view is in order, whole and true, over drops, slow viewers and restarts.

On one connection the first frame is all of the view; versions rise, each one comes once, and one
that is passed over is followed by all of the view again: that is the marker of a gap. Who asks for
all of it may be given the version it has once more, and then it is the same. Over all
connections of a viewer the time of what is shown never goes back while one store runs. Whoever
holds the same view of the same moment holds the same, whether it came as a whole or in changes.
Numbers that only grow are at least what was answered to somebody before the picture was taken, and
at most what had been asked for when it arrived; in the end they are what is there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.histories.verdicts import Findings, Verdict

NAME = "INV-15 live views"

Json = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A frame as it came: to which viewer, on which of its connections, of which view, and when.

    `document` is the frame's JSON. `run` names the broker's process that sent it.
    """

    viewer: str
    connection: int
    run: int
    view: str
    at_ns: int
    document: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of numbers that only grow, by name, from a moment on."""

    at_ns: int
    values: Mapping[str, int]


@dataclass(slots=True)
class _Held:
    """What a viewer holds of one connection."""

    version: int = 0
    state: Json = None
    has_any: bool = False


@dataclass(slots=True, kw_only=True)
class Account:
    """Everything of one run. `numbers_of` reads the numbers that only grow out of a state.

    `answered` are numbers somebody was told, `asked` those that were asked for; `final` is what is
    there in the end, by name. `wall_offset_ns` makes the time of a picture one of `at_ns`.
    """

    frames: Sequence[Frame]
    answered: Sequence[Known] = ()
    asked: Sequence[Known] = ()
    final: Mapping[str, int] = field(default_factory=dict)
    wall_offset_ns: int = 0


def check(account: Account, numbers_of: Any, *, late_s: float = 0.0) -> Verdict:
    """Check every frame of a run. A picture may lie behind by `late_s` and no more."""
    findings = Findings(NAME)
    held: dict[tuple[str, int], _Held] = {}
    newest: dict[tuple[str, int, str], int] = {}
    agreed: dict[tuple[int, str, int], Json] = {}
    last: dict[str, Json] = {}
    for frame in sorted(account.frames, key=lambda frame: frame.at_ns):
        state = _taken(held.setdefault((frame.viewer, frame.connection), _Held()), frame, findings)
        if state is None:
            continue
        findings.counts["frames"] += 1
        at_ms = state["sampled_at_ms"]
        place = frame.viewer, frame.run, frame.view
        if at_ms < newest.get(place, at_ms):
            findings.violation("time goes back:", _of(frame), newest[place], "then", at_ms)
        newest[place] = max(at_ms, newest.get(place, at_ms))
        # What is too much to send, or not known, is another matter than what it is.
        if state.get("shown") is not None:
            other = agreed.setdefault((frame.run, frame.view, at_ms), state["shown"])
            if other != state["shown"]:
                findings.violation("two viewers hold different states of one moment:", _of(frame))
            findings.counts["compared"] += other is not state["shown"]
            _check_numbers(frame, state, account, numbers_of, late_s, findings)
            last[frame.viewer] = state
    for viewer, state in last.items():
        found = numbers_of(state)
        wrong = {
            name: (found.get(name), value)
            for name, value in account.final.items()
            if found.get(name) != value
        }
        if wrong:
            findings.violation(f"{viewer} ends with other numbers than there are:", wrong)
    unknown = "" if findings.counts["deltas"] and last else "no change of a view was seen"
    return findings.verdict(unknown=unknown)


def _taken(held: _Held, frame: Frame, findings: Findings) -> Json:
    document = frame.document
    kind, version = document["kind"], document["version"]
    if held.has_any and version == held.version and kind == "whole":
        # The answer to who asked for all of it before there was anything new.
        findings.counts["told again"] += 1
        if document["state"] != held.state:
            findings.violation("one version is two states:", _of(frame))
    elif held.has_any and version <= held.version:
        findings.violation("a version comes again, or an older one:", _of(frame), held.version)
    if kind == "whole":
        is_passed = held.has_any and version > held.version + 1
        findings.counts["gaps with a marker"] += is_passed
        findings.counts["wholes"] += 1
        held.state = document["state"]
    elif not held.has_any:
        findings.violation("a connection begins with a change:", _of(frame))
        return None
    else:
        findings.counts["deltas"] += 1
        if version != held.version + 1:
            findings.violation("a gap without a marker:", _of(frame), "after", held.version)
            held.version = version
            return None
        try:
            held.state = applied(held.state, document["delta"])
        except (KeyError, TypeError, ValueError) as error:
            findings.violation("a change of what is not there:", _of(frame), repr(error))
            return None
    held.version, held.has_any = version, True
    return held.state


def _check_numbers(
    frame: Frame,
    state: Json,
    account: Account,
    numbers_of: Any,
    late_s: float,
    findings: Findings,
) -> None:
    found = numbers_of(state)
    sampled_ns = state["sampled_at_ms"] * 1_000_000 - account.wall_offset_ns
    least = _at(account.answered, sampled_ns - round(late_s * 1e9))
    most = _at(account.asked, frame.at_ns)
    for name, value in found.items():
        if value is None:
            continue
        if name in least and value < least[name]:
            findings.violation(f"{name} is {value}, and was {least[name]} before:", _of(frame))
        if name in most and value > most[name]:
            findings.violation(f"{name} is {value}, and {most[name]} were asked for:", _of(frame))
        findings.counts["numbers"] += 1


def _at(known: Iterable[Known], at_ns: int) -> dict[str, int]:
    """Return what was known at a moment."""
    values: dict[str, int] = {}
    for one in known:
        if one.at_ns > at_ns:
            break
        values.update(one.values)
    return values


def applied(value: Json, delta: Mapping[str, Json]) -> Json:
    """Return the next value by the rules of docs/ARCHITECTURE.md; raise where they do not fit."""
    if "=" in delta:
        return delta["="]
    if "by" in delta:
        rows = {str(row[delta["by"]]): row for row in value}
        rows.update(delta.get("+", {}))
        for name, below in delta.get("~", {}).items():
            rows[name] = applied(rows[name], below)
        return [rows[name] for name in delta.get("order", list(rows))]
    found = dict(value)
    for name in delta.get("-", ()):
        del found[name]
    for name, below in delta.get("~", {}).items():
        found[name] = applied(found[name], below)
    found.update(delta.get("+", {}))
    return found


def _of(frame: Frame) -> str:
    version = frame.document["version"]
    return f"{frame.viewer}, connection {frame.connection}, {frame.view} version {version}"
