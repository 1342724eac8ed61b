"""What operators ask for, once each: a worker killed in mid-step, clicks doubled, connections cut.

Rows D1, D7 and D8 of the fault table for `deadletters.resend` and for a decision about a
transaction. A step is held in its middle by a lock on a table it writes to.
"""

import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from apps.clockwork.models import Outcome
from tests.clockwork.machine import Machine, kill_hard
from tests.web.product import wait_for

pytestmark = pytest.mark.process

TOPIC, GROUP, PRODUCERS = "jobs", "billing", "payers"
LETTERS = 6
TASK = "deadletters.resend"
LETTER_TABLE, DECISION_TABLE = "deadletters_deadletter", "transactions_transactiondecision"
LETTER_PATH = f"/api/v1/groups/{GROUP}/dead-letters"


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Run the product, without worker and beat of its own, and make some dead letters."""
    data = Path(tempfile.mkdtemp(prefix="mqweb-run-"))
    with Machine(data) as machine:
        asked(machine, "PUT", f"/api/v1/topics/{TOPIC}", {"queue_count": 1}, status=201)
        messages = [{"body": f"job {number}"} for number in range(LETTERS)]
        path = f"/api/v1/topics/{TOPIC}/messages"
        asked(machine, "POST", path, {"messages": messages}, status=201)
        bury(machine)
        wait_for(lambda: len(letters(machine, "waiting")) == LETTERS)
        yield machine
    shutil.rmtree(data)


def asked(
    machine: Machine, method: str, path: str, document: object = None, *, status: int = 200
) -> Any:  # A JSON document.
    """Make a request that is answered with a status."""
    found, _, answer = machine.product.request(method, path, document)
    assert found == status, answer
    return answer


def bury(machine: Machine) -> None:
    """Receive everything, and give it up at once."""
    path = f"/api/v1/groups/{GROUP}/messages"
    received = asked(machine, "POST", f"{path}:receive", {"topic": TOPIC, "max": LETTERS})
    handles = [message["receipt_handle"] for message in received["messages"]]
    assert len(handles) == LETTERS
    document = {"receipt_handles": handles, "delay_level": -1, "reason": "hopeless"}
    asked(machine, "POST", f"{path}:nack", document)


def letters(machine: Machine, state: str) -> list[Any]:
    """Return the letters in a state, as operators see them."""
    found: list[Any] = asked(machine, "GET", f"{LETTER_PATH}?state={state}")["items"]
    return found


def stored(machine: Machine) -> list[str]:
    """Return the bodies in the topic, in order."""
    path = f"/api/v1/topics/{TOPIC}/queues/0/messages?offset=0&max=1000"
    return [message["body"] for message in asked(machine, "GET", path)["messages"]]


def judge_resent(machine: Machine, jobs: list[str]) -> None:
    """Assert that every letter was sent again once, and that its row says so."""
    wait_for(lambda: all(asked(machine, "GET", f"/api/v1/jobs/{job}")["ended_at"] for job in jobs))
    bodies = sorted(f"job {number}" for number in range(LETTERS))
    assert sorted(stored(machine)) == sorted(bodies * 2)
    assert len(letters(machine, "resent")) == LETTERS


def cut_waiting_connections(machine: Machine, table: str) -> int:
    """End the database's connections that wait for a table; return how many there were."""
    query = (
        "SELECT pg_terminate_backend(pid) FROM pg_locks"
        " WHERE relation = %s::regclass AND NOT granted"
    )
    return [ended for (ended,) in machine.ask(query, table)].count(True)


@pytest.mark.crash
def test_a_double_click_sends_every_letter_once(machine: Machine) -> None:
    def click(_: int) -> tuple[int, Any]:
        status, _, answer = machine.product.request("POST", f"{LETTER_PATH}:resend", {"all": True})
        return status, answer

    with ThreadPoolExecutor(4) as clicks:
        answers = list(clicks.map(click, range(4)))
    jobs = [answer["id"] for status, answer in answers if status == 202]
    assert {status for status, _ in answers} == {202, 409}

    with (
        machine.worker("first"),
        machine.worker("second"),
        machine.beat("one"),
        machine.beat("two"),
    ):
        judge_resent(machine, jobs)


@pytest.mark.crash
def test_a_connection_cut_in_mid_click_changes_nothing_and_can_be_repeated(
    machine: Machine,
) -> None:
    def click() -> tuple[int, Any]:
        status, _, answer = machine.product.request("POST", f"{LETTER_PATH}:resend", {"all": True})
        return status, answer

    with ThreadPoolExecutor(1) as clicks:
        with machine.writes_held(LETTER_TABLE) as anybody_waits:
            clicked = clicks.submit(click)
            wait_for(anybody_waits)
            assert cut_waiting_connections(machine, LETTER_TABLE) == 1
        status, answer = clicked.result()

    assert status >= 500, answer
    assert len(letters(machine, "waiting")) == LETTERS
    assert asked(machine, "GET", "/api/v1/jobs")["items"] == []
    again, job = click()
    assert again == 202
    with machine.worker(), machine.beat():
        judge_resent(machine, [job["id"]])


def test_a_connection_cut_in_mid_decision_leaves_no_half_of_it(machine: Machine) -> None:
    path = f"/api/v1/topics/{TOPIC}/transactions"
    half = {"message": {"body": "half"}, "producer_group": PRODUCERS}
    transaction = asked(machine, "POST", path, half, status=201)["transaction_id"]
    target = f"/api/v1/transactions/{transaction}:check-now"

    with ThreadPoolExecutor(1) as clicks:
        with machine.writes_held(DECISION_TABLE) as anybody_waits:
            clicked = clicks.submit(machine.product.request, "POST", target, {})
            wait_for(anybody_waits)
            assert cut_waiting_connections(machine, DECISION_TABLE) == 1
        status, _, answer = clicked.result()

    assert status >= 500, answer
    assert machine.ask(f"SELECT 1 FROM {DECISION_TABLE}") == []
    asked(machine, "POST", target, {})
    assert len(machine.ask(f"SELECT 1 FROM {DECISION_TABLE}")) == 1
    # A decision is the data plane's, and needs no database: once, and then a repeat.
    commit = f"/api/v1/transactions/{transaction}:commit"
    answers = [asked(machine, "POST", commit, {}) for _ in range(2)]
    assert [answer["repeat"] for answer in answers] == [False, True]
    assert stored(machine).count("half") == 1


@pytest.mark.crash
def test_a_worker_killed_between_the_engine_and_the_rows_sends_nothing_twice(
    machine: Machine,
) -> None:
    job = asked(machine, "POST", f"{LETTER_PATH}:resend", {"all": True}, status=202)["id"]

    with machine.worker(), machine.beat():
        with machine.writes_held(LETTER_TABLE) as anybody_waits:
            wait_for(lambda: anybody_waits() and len(stored(machine)) == 2 * LETTERS)
            run = machine.runs(TASK)[-1]
            assert run.outcome == Outcome.RUNNING
            kill_hard(psutil.Process(run.pid))
        judge_resent(machine, [job])
    outcomes = {run.outcome for run in machine.runs(TASK)}
    assert Outcome.INTERRUPTED in outcomes
