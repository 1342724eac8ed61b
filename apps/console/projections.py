"""What each live page shows of a picture. Pure: knows pictures and names of views; no socket.

A view is named `kind` or `kind.name`. What it shows is the part of a picture that its page binds,
so that a viewer is sent nothing else, and little enough to be sent each second.
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypedDict

from apps.console import frames, lockgrid
from apps.console.freshness import State
from apps.console.picture import Picture

# As long as the longest name, each character of which may be written as `%XX` in an address.
NAME_CHARACTERS_MAX = 512
_KIND = re.compile(r"[a-z]{1,20}")

Shown = Mapping[str, Any]  # Values of JSON.


class Known(StrEnum):
    """What can be said of what a view shows."""

    LIVE = "live"
    """It is of the time of the picture."""
    STALE = "stale"
    """It is of another time, and its source is away."""
    STILL = "still"
    """The picture has nothing of it, or too much to push: the page stays as it was rendered."""


class ViewState(TypedDict):
    """All that a page of one view needs of one picture."""

    sampled_at: str
    sampled_at_ms: int
    banner: Any
    known: str
    shown: Shown | None


def is_view(view: str) -> bool:
    """Say whether a text names a view there can be; one of its objects need not be there."""
    kind, dot, name = view.partition(".")
    if not _KIND.fullmatch(kind):
        return False
    if kind == "locks" and dot:
        return _is_choice(name)
    if dot:
        return kind in _NAMED and 1 <= len(name) <= NAME_CHARACTERS_MAX
    return kind in _WHOLE


def state_of(view: str, picture: Picture) -> ViewState:
    """Return what a view shows of a picture; raise KeyError for no view."""
    kind, dot, name = view.partition(".")
    known, shown = _NAMED[kind](picture, name) if dot else _WHOLE[kind](picture)
    snapshot = picture.snapshot
    return {
        "sampled_at": snapshot["sampled_at"],
        "sampled_at_ms": snapshot["sampled_at_ms"],
        "banner": snapshot["clockwork"]["banner"],
        "known": known.value,
        "shown": shown,
    }


_Found = tuple[Known, Shown | None]
_NOTHING: _Found = (Known.STILL, None)


def _overview(picture: Picture) -> _Found:
    shown = frames.shown(picture.snapshot)
    return Known.LIVE, {name: shown[name] for name in _OF_OVERVIEW}


_OF_OVERVIEW = (
    "store", "totals", "topics", "groups", "delays", "transactions", "deaths", "last_hour",
    "is_cut",
)  # fmt: skip


def _part(name: str) -> Callable[[Picture], _Found]:
    return lambda picture: (Known.LIVE, picture.snapshot[name])  # type: ignore[literal-required]


def _is_choice(query: str) -> bool:
    """Say whether a text is what an address of the page of locks says, as that page writes it."""
    if not 1 <= len(query) <= NAME_CHARACTERS_MAX:
        return False
    try:
        return lockgrid.chosen_in(query).query() == query
    except ValueError:
        return False


def _locks(picture: Picture, query: str = "") -> _Found:
    found = picture.snapshot["locks"]
    chosen = lockgrid.chosen_in(query)
    # Of a picture that travelled, what the page shows may be missing.
    grid = lockgrid.grid_in_sight(found["rows"], found["row_count"], chosen)
    return _NOTHING if grid is None else (Known.LIVE, lockgrid.everything(found, chosen, grid))


def _topic(picture: Picture, name: str) -> _Found:
    topic = picture.topics.get(name)
    groups = picture.snapshot["groups"]
    if topic is None or not _is_whole(topic, "queues"):
        return _NOTHING
    # A picture that travelled may have been cut.
    if any(group["queues"] is None for group in groups):
        return _NOTHING
    readers = [
        {**progress, "group": group["name"], "id": f"{group['name']}/{progress['queue']}"}
        for group in groups
        for progress in group["queues"]
        if progress["topic"] == name
    ]
    if len(readers) > frames.QUEUES_MAX:
        return _NOTHING
    return Known.LIVE, {**topic, "readers": readers}


def _group(picture: Picture, name: str) -> _Found:
    group = picture.groups.get(name)
    if group is None or not (_is_whole(group, "queues") and _is_whole(group, "members")):
        return _NOTHING
    return Known.LIVE, group


def _is_whole(row: Shown, part: str) -> bool:
    return row[part] is not None and len(row[part]) <= frames.QUEUES_MAX


def _dated(state: str, shown: Shown | None) -> _Found:
    if state == State.STALE:
        return Known.STALE, None
    return (Known.LIVE, shown) if state == State.FRESH and shown is not None else _NOTHING


def _pipelines(picture: Picture) -> _Found:
    found = picture.snapshot["pipelines"]
    return _dated(found["state"], found)


def _runs(picture: Picture) -> _Found:
    return _dated(picture.snapshot["pipelines"]["state"], {"runs": _told(picture)})


def _run(picture: Picture, name: str) -> _Found:
    found = next((run for run in _told(picture) if str(run["id"]) == name), None)
    return _dated(picture.snapshot["pipelines"]["state"], found)


def _results(picture: Picture, name: str) -> _Found:
    pipelines = picture.snapshot["pipelines"]
    found = next((job for job in pipelines["jobs"] or () if job["name"] == name), None)
    return _dated(pipelines["state"], found)


def _told(picture: Picture) -> list[Any]:
    """Return the rows of runs, each once: one that runs is among the newest, too."""
    found = picture.snapshot["pipelines"]
    rows = (*(found["running"] or ()), *(found["lately"] or ()), *(found["runs"] or ()))
    return list({row["id"]: row for row in reversed(rows)}.values())[::-1]


def _job(picture: Picture, name: str) -> _Found:
    found = picture.snapshot["jobs"]
    job = next((row for row in found["jobs"] if str(row["id"]) == name), None)
    return _dated(found["state"], job)


_WHOLE: Mapping[str, Callable[[Picture], _Found]] = {
    "overview": _overview,
    "locks": _locks,
    "delays": _part("delays"),
    "transactions": _part("transactions"),
    "clockwork": _part("clockwork"),
    "pipelines": _pipelines,
    "runs": _runs,
}
_NAMED: Mapping[str, Callable[[Picture, str], _Found]] = {
    "topic": _topic,
    "group": _group,
    "locks": _locks,
    "run": _run,
    "results": _results,
    "job": _job,
}
