"""The dashboard for Grafana: it asks for nothing that /metrics does not have, by no other label."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.doors.guard import figures
from apps.doors.guard.clients import ClientLimits, ClientRates
from apps.doors.guard.connections import ConnectionRules, Connections
from apps.doors.http import metrics
from apps.doors.http.inflight import InFlight
from apps.engine.clock import SystemClock
from apps.engine.grouptypes import QueueBacklog
from apps.engine.types import QueueRange
from tests.doors.recorder import Recorder

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana" / "mqweb.json"
NAME = re.compile(r"\b(?:rocketmq|mqweb)_[a-z0-9_]+")
SELECTOR = re.compile(r"((?:rocketmq|mqweb)_[a-z0-9_]+)\{([^}]*)\}")
# Prometheus adds it to whatever it scrapes.
OF_PROMETHEUS = {"instance"}


@pytest.fixture
def exposed(engine: Recorder, monkeypatch: pytest.MonkeyPatch) -> dict[str, metrics.Metric]:
    """Return every metric family by name, of an engine that has a sample for each label."""
    row = QueueBacklog(
        group="g", topic="t", queue=0, committed=0, delivered=0, max_offset=1, in_flight=0,
        oldest_age_ms=1, stalled_ms=None, head_attempts=None, owner=None, lock_epoch=None,
        lock_expires_in_ms=None,
    )  # fmt: skip
    letters = QueueRange(topic="%DLQ%g", queue=0, min_offset=0, max_offset=1)
    monkeypatch.setattr(engine, "backlog", lambda group=None: [row])
    monkeypatch.setattr(engine, "own_ranges", lambda prefix: {"%DLQ%g": [letters]})
    around = figures.families(
        Connections(ConnectionRules(), SystemClock()),
        ClientLimits(ClientRates(), SystemClock()),
        InFlight(1),
        None,
    )
    return {metric.name: metric for metric in (*metrics.families(engine), *around)}


def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text())


def queries() -> Iterator[str]:
    """Yield every question the dashboard asks, of panels and of variables."""
    found = dashboard()
    for panel in found["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in found["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def test_every_name_it_asks_for_is_one_that_is_exposed(exposed: dict[str, metrics.Metric]) -> None:
    asked = {name for query in queries() for name in NAME.findall(query)}

    assert len(asked) >= 30
    assert asked <= set(exposed), asked - set(exposed)


def test_a_name_that_is_not_exposed_would_be_noticed(exposed: dict[str, metrics.Metric]) -> None:
    assert "rocketmq_producer_connections" not in exposed
    assert NAME.findall("sum(rocketmq_producer_connections)") == ["rocketmq_producer_connections"]


def test_it_selects_by_labels_that_the_metrics_have(exposed: dict[str, metrics.Metric]) -> None:
    checked = 0
    for query in queries():
        for name, selector in SELECTOR.findall(query):
            labels = {label for labels, _ in exposed[name].samples for label in labels}
            wanted = set(re.findall(r"(\w+)=~", selector)) - OF_PROMETHEUS
            if exposed[name].samples:
                assert wanted <= labels, (name, wanted, labels)
                checked += bool(wanted)
    assert checked >= 8


def test_rates_are_taken_of_what_only_grows(exposed: dict[str, metrics.Metric]) -> None:
    rated = {
        name
        for query in queries()
        for name in re.findall(r"rate\(((?:rocketmq|mqweb)_[a-z0-9_]+)", query)
    }

    growing = {name for name in rated if exposed[name].kind == "counter"}
    # An offset is a gauge by its kind, and only grows.
    assert rated - growing == {"mqweb_queue_max_offset"}


def test_panels_lie_beside_each_other_and_have_numbers_of_their_own() -> None:
    panels = dashboard()["panels"]
    taken: set[tuple[int, int]] = set()

    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
