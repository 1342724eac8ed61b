"""What operators and tasks do while the answer to a commit never comes: done once, and known.

Row D1 of the fault table: the connection to PostgreSQL is reset at a commit, before it was applied
or after. Whoever asked is told that nobody knows; asking again, or looking, tells.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from apps.engine.codec.layout import GIVEN_UP_TOPIC
from tests.celery.brokers import database_url, migrated_database
from tests.outcomes.cutproducts import CutMachine, Desk
from tests.outcomes.field import CHECKS_MAX, wait_for
from tests.process.commitcut import CommitCut, Fate, Trap, server_address

pytestmark = pytest.mark.process

FATES = pytest.mark.parametrize("fate", list(Fate))
TASK_RUN = rb'INSERT INTO "clockwork_taskrun".*%s'
TASK_END = rb'UPDATE "clockwork_taskrun" SET .*\'done\'.*%s'


@pytest.fixture(scope="module")
def machine(embedded_postgres: None) -> Iterator[CutMachine]:
    """Run the product on a database of its own, behind a way on which commits are cut."""
    database = settings.DATABASES["default"]
    data = Path(tempfile.mkdtemp(prefix="mqweb-run-"))
    with migrated_database("cut") as name, CommitCut(server_address(database)) as cut:
        behind = {**database, "HOST": "127.0.0.1", "PORT": cut.port}
        urls = {"url": database_url(database, name), "cut_url": database_url(behind, name)}
        with CutMachine(data, cut, **urls) as machine:
            yield machine
    shutil.rmtree(data)


def assert_not_known(trap: Trap, answer: tuple[int, Any]) -> None:
    """The fault was there, and whoever asked was told honestly."""
    assert trap.has_fired.is_set()
    status, document = answer
    assert (status, document["code"]) == (503, "database_unavailable")


@FATES
def test_a_topic_is_made_once_however_often_it_is_asked_for(
    machine: CutMachine, fate: Fate
) -> None:
    path = f"/api/v1/topics/orders-{fate}"
    trap = machine.cut.arm(b'INSERT INTO "topics_topic".*orders-%s' % fate.encode(), fate)

    assert_not_known(trap, machine.answered("PUT", path, {"queue_count": 2}))

    was_made = machine.answered("GET", path)[0] == 200
    assert was_made == (fate is Fate.APPLIED)
    machine.asked("PUT", path, {"queue_count": 2}, status=200 if was_made else 201)
    machine.asked("PUT", path, {"queue_count": 2})
    assert len(machine.asked("GET", path)["queues"]) == 2
    machine.asked("POST", f"{path}/messages", {"messages": [{"body": "first"}]}, status=201)


@pytest.mark.crash
def test_a_topic_that_was_made_unheard_can_be_sent_to_although_nobody_asks_again(
    machine: CutMachine,
) -> None:
    path = "/api/v1/topics/unheard"
    trap = machine.cut.arm(rb'INSERT INTO "topics_topic".*unheard', Fate.APPLIED)

    assert_not_known(trap, machine.answered("PUT", path, {}))

    document = {"messages": [{"body": "first"}]}
    wait_for(
        lambda: machine.answered("POST", f"{path}/messages", document)[0] == 201,
        "the broker learns of the topic",
    )


@FATES
def test_a_click_on_resend_sends_every_letter_once(machine: CutMachine, fate: Fate) -> None:
    desk = Desk(machine)
    pattern = rb'INSERT INTO "deadletters_resendjob".*\'%s\'' % desk.group.encode()
    trap = machine.cut.arm(pattern, fate)

    assert_not_known(trap, desk.resend())

    assert len(desk.jobs()) == (fate is Fate.APPLIED)
    status, answer = desk.resend()
    expected = (409, "conflict") if fate is Fate.APPLIED else (202, None)
    assert (status, answer.get("code")) == expected
    desk.judge_resent()


@FATES
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_decision_of_a_person_is_made_once_and_has_its_line(
    machine: CutMachine, fate: Fate, moment: str
) -> None:
    """Before the engine is asked nothing was decided; after it, it was, and the line is left."""
    desk = Desk(machine, letters=0)
    id_, page = begun(desk)
    asked, line = {"before": ("INSERT INTO", ""), "after": ("UPDATE", "done")}[moment]
    pattern = f'{asked} "transactions_transactiondecision".*{line}'
    trap = machine.cut.arm(pattern.encode(), fate)
    wish = {"outcome": "committed", "typed": "commit", "transaction_id": id_}

    status, _ = machine.press(page, f"{page}/decide", **wish)

    assert trap.has_fired.is_set()
    assert status == 503
    assert machine.bodies(desk.topic) == ([] if moment == "before" else ["half"])
    answers = {
        ("before", Fate.LOST): [],
        ("before", Fate.APPLIED): [""],
        ("after", Fate.LOST): [""],
        ("after", Fate.APPLIED): ["done"],
    }[moment, fate]
    assert lines_of(machine, id_) == answers
    if moment == "before":
        assert machine.press(page, f"{page}/decide", **wish) == (303, "/transactions")
        assert lines_of(machine, id_) == [*answers, "done"]
    path = f"/api/v1/transactions/{id_}"
    assert machine.asked("POST", f"{path}:commit", {})["repeat"] is True
    assert machine.asked("POST", f"{path}:rollback", {}, status=409)["code"] == (
        "transaction_decided"
    )
    assert machine.bodies(desk.topic) == ["half"]


@FATES
def test_a_check_that_was_asked_for_unheard_can_be_asked_for_again(
    machine: CutMachine, fate: Fate
) -> None:
    id_, _ = begun(Desk(machine, letters=0))
    path = f"/api/v1/transactions/{id_}"
    trap = machine.cut.arm(rb'INSERT INTO "transactions_transactiondecision"', fate)

    assert_not_known(trap, machine.answered("POST", f"{path}:check-now", {}))

    assert machine.asked("POST", f"{path}:check-now", {})["transaction_id"] == id_
    assert lines_of(machine, id_) == ([""] if fate is Fate.APPLIED else []) + ["done"]
    # What producers say is the data plane's, and needs no database.
    trap = machine.cut.arm(id_.encode(), fate)
    answers = [machine.asked("POST", f"{path}:rollback", {})["repeat"] for _ in range(2)]
    assert answers == [False, True]
    machine.cut.disarm(trap)


def begun(desk: Desk) -> tuple[str, str]:
    """Begin a transaction of the desk's topic; return its id and its page."""
    half = {"message": {"body": "half", "queue": 0}, "producer_group": f"of-{desk.group}"}
    path = f"/api/v1/topics/{desk.topic}/transactions"
    id_ = desk.machine.asked("POST", path, half, status=201)["transaction_id"]
    page = desk.machine.asked("GET", f"/transactions?producer_group=of-{desk.group}").decode()
    (address,) = set(re.findall(r'href="(/transactions/\d+)"', page))
    return id_, address


def lines_of(machine: CutMachine, id_: str) -> list[str]:
    """Return the answers in the lines about a transaction, the first first."""
    query = (
        "SELECT answer FROM transactions_transactiondecision WHERE transaction_id = %s ORDER BY id"
    )
    return [answer for (answer,) in machine.ask(query, id_)]


RECORDED = rb'UPDATE "deadletters_deadletter" SET .*"resent_at"'
RESENDING = {
    "claim": TASK_RUN % rb"deadletters\.resend",
    "letters taken": rb'UPDATE "deadletters_resendjob" SET .*\'running\'',
    "results written": RECORDED,
    "end": TASK_END % rb"deadletters\.resend",
}


@FATES
def test_a_step_whose_results_nobody_knows_to_be_written_sends_nothing_twice(
    machine: CutMachine, fate: Fate
) -> None:
    resend_with_a_cut(machine, RECORDED, fate)


@pytest.mark.crash
@FATES
@pytest.mark.parametrize("moment", RESENDING)
def test_every_commit_of_a_step_that_resends(machine: CutMachine, fate: Fate, moment: str) -> None:
    resend_with_a_cut(machine, RESENDING[moment], fate)
    settle("deadletters.resend", machine)


def resend_with_a_cut(machine: CutMachine, pattern: bytes, fate: Fate) -> None:
    desk = Desk(machine)
    trap = machine.cut.arm(pattern, fate)
    status, job = desk.resend()
    assert status == 202, job

    wait_for(trap.has_fired.is_set, "a commit of the step is cut")

    desk.judge_resent()


DELIVERING = {
    "claim": TASK_RUN % rb"delays\.deliver_levels",
    "progress": rb'INSERT INTO "delays_delaylevel"',
    "end": TASK_END % rb"delays\.deliver_levels",
}


@pytest.mark.crash
@FATES
@pytest.mark.parametrize("moment", DELIVERING)
def test_every_commit_of_a_step_that_delivers_levels(
    machine: CutMachine, fate: Fate, moment: str
) -> None:
    desk = Desk(machine, letters=0)
    bodies = [f"late {number}" for number in range(20)]
    messages = [{"body": body, "queue": 0, "delay_level": 1} for body in bodies]
    path = f"/api/v1/topics/{desk.topic}/messages"
    machine.asked("POST", path, {"messages": messages}, status=201)
    trap = machine.cut.arm(DELIVERING[moment], fate)

    wait_for(trap.has_fired.is_set, "a commit of the step is cut")

    wait_for(lambda: len(machine.bodies(desk.topic)) >= len(bodies), "all are delivered")
    with closing(machine.engine()) as engine:
        (level,) = [one for one in engine.delay_levels().levels if one.level == 1]
    query = "SELECT delivered, max_offset FROM delays_delaylevel WHERE level = 1"
    # A level in which nothing moves is written anew after 10 s.
    wait_for(
        lambda: machine.ask(query) == [(level.delivered, level.max_offset)], "the row is right"
    )
    assert level.delivered == level.max_offset
    settle("delays.deliver_levels", machine)
    assert sorted(machine.bodies(desk.topic)) == sorted(bodies)


GIVING_UP = {
    "claim": TASK_RUN % rb"transactions\.give_up",
    "end": TASK_END % rb"transactions\.give_up",
}


@pytest.mark.crash
@FATES
@pytest.mark.parametrize("moment", GIVING_UP)
def test_every_commit_of_a_step_that_gives_up(machine: CutMachine, fate: Fate, moment: str) -> None:
    desk = Desk(machine, letters=0)
    bodies = [f"open {desk.topic} {number}" for number in range(5)]
    producers = f"of-{desk.group}"
    for body in bodies:
        half = {"message": {"body": body, "queue": 0}, "producer_group": producers}
        machine.asked("POST", f"/api/v1/topics/{desk.topic}/transactions", half, status=201)
    checks: list[int] = []

    def are_checked() -> bool:
        path = f"/api/v1/producer-groups/{producers}/checks:receive"
        found = machine.asked("POST", path, {"client_id": "silent", "wait_ms": 200})["checks"]
        checks.extend(check["number"] for check in found)
        return len(checks) >= len(bodies) * CHECKS_MAX

    wait_for(are_checked, "all checks are made")
    trap = machine.cut.arm(GIVING_UP[moment], fate)

    wait_for(trap.has_fired.is_set, "a commit of the step is cut")

    def given_up() -> list[str]:
        return [body for body in machine.bodies(GIVEN_UP_TOPIC) if body in bodies]

    wait_for(lambda: len(given_up()) >= len(bodies), "all are given up")
    settle("transactions.give_up", machine)
    assert sorted(given_up()) == sorted(bodies)
    assert machine.bodies(desk.topic) == []


def settle(task: str, machine: CutMachine) -> None:
    """Wait until the task has run again, and nobody is said to run it who does not."""
    count = len(machine.runs(task))
    wait_for(
        lambda: len(machine.runs(task)) > count and not machine.open_runs(task),
        f"{task} goes on",
    )
