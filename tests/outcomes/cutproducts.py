"""The whole product, every way of which to its database leads through a `CommitCut`.

What is asked about it here is asked over REST, or directly of the database, which nobody cuts.
"""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg

from apps.bridge import control
from apps.bridge.remote import RemoteEngine
from tests.clockwork.machine import Machine
from tests.outcomes.field import VARIABLES, wait_for
from tests.process.commitcut import CommitCut

LETTERS = 5
_CSRF = "mqweb_csrf"
_numbers = count()


class CutMachine(Machine):
    """A product with worker and beat, on a database of its own."""

    def __init__(self, data: Path, cut: CommitCut, *, url: str, cut_url: str) -> None:
        """Start it; `url` leads to the database directly, and `cut_url` through `cut`."""
        self.cut = cut
        self._url = url
        super().__init__(data, worker_processes=2, DATABASE_URL=cut_url, **VARIABLES)

    def asked(self, method: str, path: str, document: object = None, *, status: int = 200) -> Any:
        """Return the document of an answer that has a status."""
        found, _, answer = self.product.request(method, path, document)
        assert found == status, answer
        return answer

    def answered(self, method: str, path: str, document: object = None) -> tuple[int, Any]:
        """Return status and document of an answer."""
        status, _, answer = self.product.request(method, path, document)
        return status, answer

    def engine(self) -> RemoteEngine:
        """Return what the clockwork asks the broker by."""
        token = control.token_of((self.data / "secret-key").read_text().strip())
        return RemoteEngine("127.0.0.1", self.product.port, token=token)

    def press(self, page: str, button: str, **values: str) -> tuple[int, str]:
        """Press a button of a page as a browser does; return the status and where it leads."""
        connection = http.client.HTTPConnection("127.0.0.1", self.product.port, timeout=20)
        try:
            connection.request("GET", page)
            shown = connection.getresponse()
            assert shown.status == 200, shown.read()
            shown.read()
            cookies = shown.headers.get_all("Set-Cookie") or []
            (token,) = [c.split(";")[0].partition("=")[2] for c in cookies if c.startswith(_CSRF)]
            form = urlencode({**values, "csrfmiddlewaretoken": token})
            headers = {
                "Content-Type": "application/x-www-form-urlencoded", "Cookie": f"{_CSRF}={token}"
            }  # fmt: skip
            connection.request("POST", button, form, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.headers.get("Location", "")
        finally:
            connection.close()

    def bodies(self, topic: str) -> list[str]:
        """Return what a topic has in its only queue; one that is not there has nothing."""
        path = f"/api/v1/topics/{topic}/queues/0/messages?offset=0&max=1000"
        status, answer = self.answered("GET", path)
        assert status == 200 or answer["code"] == "unknown_topic", answer
        return [message["body"] for message in answer["messages"]] if status == 200 else []

    def open_runs(self, task: str) -> list[str]:
        """Return who is said to run a task, but for its newest run."""
        return [run.owner for run in self.runs(task)[:-1] if run.ended_at is None]

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(self._url) as connection:
            yield connection


class Desk:
    """An operator's desk: a topic and a group nobody else has, with dead letters to begin with."""

    def __init__(self, machine: CutMachine, *, letters: int = LETTERS) -> None:
        """Send messages, have the group give them up, and wait until operators see them."""
        number = next(_numbers)
        self.machine = machine
        self.topic, self.group = f"jobs-{number}", f"billing-{number}"
        self.sent = [f"job {number}.{index}" for index in range(letters)]
        self._path = f"/api/v1/groups/{self.group}/dead-letters"
        machine.asked("PUT", f"/api/v1/topics/{self.topic}", {"queue_count": 1}, status=201)
        if self.sent:
            self._bury()

    def resend(self) -> tuple[int, Any]:
        """Click on resend."""
        return self.machine.answered("POST", f"{self._path}:resend", {"all": True})

    def letters(self, state: str) -> int:
        """Return how many letters are in a state, as operators see them."""
        return len(self.machine.asked("GET", f"{self._path}?state={state}")["items"])

    def jobs(self) -> list[Any]:
        """Return the jobs of the group."""
        found = self.machine.asked("GET", "/api/v1/jobs")["items"]
        return [job for job in found if job["group"] == self.group]

    def judge_resent(self) -> None:
        """Wait for the job's end; every letter was sent once again, and operators are told so."""
        wait_for(lambda: all(job["ended_at"] for job in self.jobs()), "the job has ended")
        (job,) = self.jobs()
        assert (job["state"], job["total"]) == ("done", LETTERS)
        assert sorted(self.machine.bodies(self.topic)) == sorted(self.sent * 2)
        assert self.letters("resent") == LETTERS

    def _bury(self) -> None:
        messages = [{"body": body, "queue": 0} for body in self.sent]
        path = f"/api/v1/topics/{self.topic}/messages"
        self.machine.asked("POST", path, {"messages": messages}, status=201)
        path = f"/api/v1/groups/{self.group}/messages"
        wanted = {"topic": self.topic, "max": LETTERS}
        received = self.machine.asked("POST", f"{path}:receive", wanted)["messages"]
        handles = [message["receipt_handle"] for message in received]
        assert len(handles) == LETTERS
        document = {"receipt_handles": handles, "delay_level": -1, "reason": "hopeless"}
        self.machine.asked("POST", f"{path}:nack", document)
        wait_for(lambda: self.letters("waiting") == LETTERS, "the letters are seen")
