"""A product whose jobs are run as an operator runs them, over REST; knows no job."""

from collections import Counter
from collections.abc import Collection
from typing import Any

from mqclient.clock import SystemClock

from tests.web.product import Product, wait_for

WAIT_S = 900
PIPELINES = "/api/v1/pipelines"


class Jobs:
    """Asks for runs as an operator does, and reads what they found."""

    def __init__(self, product: Product, since_ms: int, *, topics: Collection[str]) -> None:
        """Ask about what happened since a moment, and look at these topics alone."""
        self._product = product
        self._since_ms = since_ms
        self._topics = topics
        self._until_ms: int | None = None

    def until_now(self) -> None:
        """Ask about nothing later from now on, so that one copy is enough for many jobs."""
        # What was stored in this very millisecond has happened.
        self._until_ms = SystemClock().wall_ms() + 1

    def run(self, job: str, **parameters: int) -> str:
        """Carry a job out over all that has happened; return the run's number."""
        number = self.ask(job, **parameters)
        wait_for(lambda: self.state(number) not in ("queued", "running"), WAIT_S)
        assert self.state(number) == "done", self._get(f"/runs/{number}")
        return number

    def ask(self, job: str, **parameters: int) -> str:
        """Ask for a job over all that has happened; return the run's number."""
        asked = {
            "job": job,
            "from": self._since_ms,
            "to": self._until_ms or SystemClock().wall_ms(),
            "parameters": parameters,
        }
        # What the schedule asks for would come first.
        for run in self._get("/runs")["items"]:
            if run["trigger"] == "schedule" and run["state"] == "queued":
                self._product.request("POST", f"{PIPELINES}/runs/{run['id']}:cancel")
        status, _, run = self._product.request("POST", f"{PIPELINES}/runs", asked)
        assert status == 202, run
        number: str = run["id"]
        return number

    def messages(self) -> Counter[str]:
        """Count by `rates` what each group has worked on, and under "" what was sent."""
        found: Counter[str] = Counter()
        run = self.run("rates")
        for group, messages, failures in self.counts("rates", run, "group", "messages", "failures"):
            found[group] += messages + (failures or 0)
        return found

    def counts(self, table: str, run: str, *names: str) -> list[tuple[Any, ...]]:
        """Return some columns of all rows that a run found, sorted; topics of ours alone."""
        items = self._get(f"/results/gold.{table}?run={run}&limit=1000")["items"]
        rows = [item["values"] for item in items]
        return sorted(
            tuple(row[name] for name in names) for row in rows if row["topic"] in self._topics
        )

    def state(self, number: str) -> str:
        """Return how a run is now."""
        state: str = self._get(f"/runs/{number}")["state"]
        return state

    def _get(self, path: str) -> Any:  # Whatever JSON there is.
        status, _, answer = self._product.request("GET", f"{PIPELINES}{path}")
        assert status == 200, answer
        return answer
