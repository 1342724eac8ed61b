"""What a run said of each feature and client: kept as a file, and shown as a table.

The table is written between two markers of docs/ROCKETMQ.md. Knows reports of scenarios and the
text of the table; no server.

    python -m tests.conformance.results    writes the table of the kept results
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.clients import CLIENTS

KEPT = Path(__file__).parent / "results.json"
DOCUMENT = Path(__file__).parents[2] / "docs" / "ROCKETMQ.md"
START = "<!-- conformance: written by `make rocketmq`, do not edit -->"
STOP = "<!-- conformance: end -->"
NOT_BUILT = "is not built"
_WORDS = {"passed": "yes", "failed": "**no**"}


@dataclass
class Recorder:
    """Gathers reports; a feature holds when all its scenarios passed.

    Where MQWEB_CONFORMANCE_RESULTS names a file they are kept in it, beside what earlier runs
    said of other features and clients.
    """

    against: str
    _found: dict[tuple[str, str], list[tuple[str, str]]] = field(default_factory=dict)

    def add(self, report: pytest.TestReport) -> None:
        """Take a report; one without a feature says nothing here."""
        told = dict(report.user_properties)
        if "feature" not in told or (report.when != "call" and report.passed):
            return
        if NOT_BUILT in _reason(report):
            return
        place = (str(told["feature"]), str(told["client"]))
        self._found.setdefault(place, []).append((report.outcome, _reason(report)))

    def keep(self) -> None:
        """Write the file, where one is asked for."""
        chosen = os.environ.get("MQWEB_CONFORMANCE_RESULTS")
        if not chosen or not self._found:
            return
        path = Path(chosen)
        before = json.loads(path.read_text()) if path.exists() else {}
        features: dict[str, Any] = before.get("features", {})
        for (feature, client), outcomes in sorted(self._found.items()):
            features.setdefault(feature, {})[client] = _summary(outcomes)
        clients = {name: f"{one.package} {one.version}" for name, one in CLIENTS.items()}
        document = {"against": self.against, "clients": clients, "features": features}
        path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def table(document: dict[str, Any]) -> str:
    """Return the table of kept results, with a note for each place that is not a plain yes."""
    names = list(document["clients"])
    names.sort(key=list(CLIENTS).index)
    notes: list[str] = []
    lines = [
        "| | " + " | ".join(document["clients"][name] for name in names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for feature, found in document["features"].items():
        cells = [_cell(found.get(name), notes) for name in names]
        lines.append(f"| {feature} | " + " | ".join(cells) + " |")
    if notes:
        lines.append("")
        lines += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return "\n".join(lines)


def written(text: str, document: dict[str, Any]) -> str:
    """Return a document's text with the table between its markers; raise ValueError."""
    before, start, rest = text.partition(START)
    _, stop, after = rest.partition(STOP)
    if not (start and stop):
        raise ValueError("the document has no markers for the table")
    return f"{before}{START}\n\n{table(document)}\n\n{STOP}{after}"


def _cell(found: dict[str, str] | None, notes: list[str]) -> str:
    if found is None:
        return "not run"
    word = _WORDS.get(found["outcome"], "-")
    if not found["reason"]:
        return word
    if found["reason"] not in notes:
        notes.append(found["reason"])
    return f"{word} ({notes.index(found['reason']) + 1})"


def _summary(outcomes: list[tuple[str, str]]) -> dict[str, str]:
    for outcome in ("failed", "passed", "skipped"):
        reasons = [reason for found, reason in outcomes if found == outcome]
        if reasons:
            # A feature with one scenario played and one left out is not whole.
            left_out = [reason for found, reason in outcomes if found == "skipped"]
            return {"outcome": outcome, "reason": (reasons[0] or (left_out or [""])[0])}
    raise ValueError("no outcome")


def _reason(report: pytest.TestReport) -> str:
    if report.passed:
        return ""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    text = "" if crash is None else str(crash.message)
    return text.splitlines()[0][:120] if text else "failed"


def write() -> None:
    """Write the table of the kept results into the document."""
    DOCUMENT.write_text(written(DOCUMENT.read_text(), json.loads(KEPT.read_text())))


if __name__ == "__main__":
    write()
