"""What a page does with frames, in Python: a view under its version, and deltas carried out.

`static/console/delta.js` and `socket.js` do the same; a test has both agree.
"""

import copy
from typing import Any


class Missing(AssertionError):
    """A version is missing: all of the view must be asked for."""


class Held:
    """A view as a page holds it."""

    def __init__(self) -> None:
        self.version = 0
        self.state: dict[str, Any] | None = None
        self.history: list[Any] | None = None

    def take(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Take a frame and return all that is shown, with the version and the time."""
        if frame["kind"] == "whole":
            self.state = frame["state"]
            self.history = frame.get("history")
        else:
            if self.state is None or frame["version"] != self.version + 1:
                raise Missing(f"{frame['version']} after {self.version}")
            self.state = applied(self.state, frame["delta"])
        self.version = frame["version"]
        assert self.state is not None
        return {
            **{name: value for name, value in self.state.items() if name != "shown"},
            **(self.state["shown"] or {}),
            "version": self.version,
            "kind": frame["kind"],
        }


def applied(value: Any, delta: dict[str, Any]) -> Any:
    """Return the next value; nothing is changed in place."""
    if "=" in delta:
        return delta["="]
    added, changed = delta.get("+", {}), delta.get("~", {})
    if "by" not in delta:
        found = {**value, **added}
        found.update({name: applied(value[name], below) for name, below in changed.items()})
        return {name: below for name, below in found.items() if name not in delta.get("-", [])}
    rows = {str(row[delta["by"]]): row for row in value}
    order = delta.get("order", list(rows))
    rows.update(added)
    rows.update({id_: applied(rows[id_], below) for id_, below in changed.items()})
    return copy.deepcopy([rows[id_] for id_ in order])
