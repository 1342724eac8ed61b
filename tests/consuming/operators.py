"""What operators do to queues while groups are at work, each act written down with its answer.

They ask as the broker's other processes do. An act without an answer is asked for again under its
own name, for as long as nobody says what became of it; in between, processes die.
"""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from django.conf import settings

from apps.bridge import control
from apps.bridge.remote import RemoteEngine
from apps.engine.caretypes import CareAct, CareRequest, CareResult, QueueReset, ResetRequest
from apps.engine.errors import EngineError, HeadMoved, NotOrdered
from apps.engine.grouptypes import QueueBacklog
from tests.consuming import nemesis
from tests.consuming.client import digest_of, id_of
from tests.consuming.field import DEADLINE_S, ORDERED, QUEUES, TAGGED, TOPIC, Run, wait_for
from tests.histories.events import Verb

_OFFSET_MAX = 1 << 60
_BACK, _FORTH = 15, 4
_PAUSE_S = 0.1
_VERBS = {
    CareAct.SUSPEND: Verb.SUSPEND,
    CareAct.RESUME: Verb.RESUME,
    CareAct.SKIP: Verb.SKIP,
    CareAct.PARK: Verb.PARK,
}
# Refusals of who was not heard; anything else is an answer.
_UNHEARD = frozenset({"unreachable", "stopping", "timeout", "overloaded"})


class Operator:
    """One who looks after the groups of a run. Use it as a context."""

    def __init__(self, run: Run) -> None:
        """Ask the run's broker."""
        self._run = run
        self._engine = RemoteEngine(
            "127.0.0.1", run.broker.port, token=control.token_of(settings.SECRET_KEY)
        )
        self._count = 0

    def close(self) -> None:
        """Ask no more."""
        self._engine.close()

    def attend(self, act: CareAct, group: str, queue: int, offset: int | None = None) -> Any:
        """Do one thing about a queue; return what is the case then, None where it was refused."""
        name = self._name()
        about = {"act": name, "group": group, "topic": TOPIC, "queue": queue}
        if offset is not None:
            about |= {"offset": offset, "reason": f"{act} by {name}"}
        request = CareRequest(
            act=act,
            group=group,
            topic=TOPIC,
            queue=queue,
            expected_offset=offset,
            by="operator",
            reason=f"{act} by {name}",
        )

        def told(found: CareResult) -> dict[str, Any]:
            return {"head": found.head}

        return self._insist(_VERBS[act], about, lambda: self._engine.attend(request), told)

    def settle_head(self, act: CareAct, group: str, queue: int) -> int:
        """Skip or park whatever is at the head; return its offset.

        A broker that has just started knows that a group reads in order when its members said so.
        """
        settled: list[int] = []

        def is_settled() -> bool:
            row = self.backlog(group, queue)
            if row.committed < row.max_offset and self.attend(act, group, queue, row.committed):
                settled.append(row.committed)
            return bool(settled)

        wait_for(is_settled, f"{act} finds the head of {group} {queue}")
        return settled[0]

    def move(self, group: str, queue: int, target: int, *, undoes: str = "") -> tuple[str, int]:
        """Have a group go on at an offset; return the act's name and where the group was."""
        name = self._name()
        about = {"act": name, "group": group, "topic": TOPIC, "queue": queue}
        about |= {"offset": target, "undoes": undoes}
        reset = QueueReset(
            topic=TOPIC, queue=queue, target=target, expected_min=0, expected_max=_OFFSET_MAX
        )
        request = ResetRequest(group=group, reset_id=name, queues=(reset,))

        def told(found: Any) -> dict[str, Any]:
            (one,) = found.queues
            return {"before": one.before, "after": one.after}

        found = self._insist(Verb.MOVE, about, lambda: self._engine.reset_offsets(request), told)
        assert found is not None
        return name, found.queues[0].before

    def backlog(self, group: str, queue: int) -> QueueBacklog:
        """Return what a group has left in a queue."""
        found: list[QueueBacklog] = []

        def is_known() -> bool:
            try:
                rows = self._engine.backlog(group)
            except EngineError:
                return False
            found.extend(row for row in rows if (row.topic, row.queue) == (TOPIC, queue))
            return bool(found)

        wait_for(is_known, f"the broker knows queue {queue} of {group}")
        return found[0]

    def committed(self, group: str, queue: int, least: int) -> int:
        """Return how far a group is in a queue, once it has done so much there."""
        found: list[int] = []

        def is_so_far() -> bool:
            found.append(self.backlog(group, queue).committed)
            return found[-1] >= least

        wait_for(is_so_far, f"{group} has done {least} messages of queue {queue}")
        return found[-1]

    def _insist(
        self,
        verb: Verb,
        about: dict[str, Any],
        ask: Callable[[], Any],
        told: Callable[[Any], dict[str, Any]],
    ) -> Any:
        """Ask until there is an answer; return it, None where the act was refused."""
        until_s = time.monotonic() + DEADLINE_S
        while True:
            running = self._run.recorder.invoke(verb, **about)
            try:
                found = ask()
            except (HeadMoved, NotOrdered) as refused:
                running.fail(refused.code)
                return None
            except EngineError as error:
                if error.code not in _UNHEARD or time.monotonic() > until_s:
                    raise
                # It may have been heard: only an answer says that nothing was done.
                running.info("unanswered")
                time.sleep(_PAUSE_S)
                continue
            running.ok(**told(found))
            return found

    def _name(self) -> str:
        self._count += 1
        return f"act-{self._count}"


def suspend_and_kill(run: Run, operator: Operator) -> None:
    """Suspend a queue of each group, kill a member and the broker, and resume."""
    queue = run.rng.randrange(QUEUES)
    for group in (ORDERED, TAGGED):
        operator.attend(CareAct.SUSPEND, group, queue)
    _replace_a_member(run)
    run.wait_for_deliveries(10)
    nemesis.restart_broker(run)
    # Other queues have to get on meanwhile.
    run.wait_for_deliveries(10)
    for group in (ORDERED, TAGGED):
        operator.attend(CareAct.RESUME, group, queue)


def skip_while_running(run: Run, operator: Operator) -> None:
    """Skip the head of a queue in the midst of its work."""
    operator.settle_head(CareAct.SKIP, ORDERED, run.rng.randrange(QUEUES))


def park_while_running(run: Run, operator: Operator) -> None:
    """Park the head of a queue in the midst of its work."""
    operator.settle_head(CareAct.PARK, ORDERED, run.rng.randrange(QUEUES))


def park_and_skip_suspended(run: Run, operator: Operator) -> None:
    """Suspend a queue, park its head and skip the next, kill the broker in between, and resume."""
    queue = run.rng.randrange(QUEUES)
    operator.attend(CareAct.SUSPEND, ORDERED, queue)
    operator.settle_head(CareAct.PARK, ORDERED, queue)
    nemesis.restart_broker(run)
    operator.settle_head(CareAct.SKIP, ORDERED, queue)
    operator.attend(CareAct.RESUME, ORDERED, queue)


def go_back(run: Run, operator: Operator) -> None:
    """Have each group read some of a queue again, and kill a member meanwhile."""
    queue = run.rng.randrange(QUEUES)
    for group in (ORDERED, TAGGED):
        # As the first deed of all it may find a queue of which nothing is done yet.
        operator.move(group, queue, operator.committed(group, queue, _BACK) - _BACK)
    _replace_a_member(run)


def pass_over_and_undo(run: Run, operator: Operator) -> None:
    """Have each group leave some of a suspended queue behind, and undo it over a restart."""
    queue = run.rng.randrange(QUEUES)
    moved = []
    for group in (ORDERED, TAGGED):
        operator.attend(CareAct.SUSPEND, group, queue)
        row = operator.backlog(group, queue)
        target = min(row.max_offset, row.committed + _FORTH)
        moved.append((group, *operator.move(group, queue, target)))
    nemesis.restart_broker(run)
    for group, name, before in moved:
        operator.move(group, queue, before, undoes=name)
        operator.attend(CareAct.RESUME, group, queue)


def pass_over(run: Run, operator: Operator) -> None:
    """Have each group leave some of a queue behind for good."""
    queue = run.rng.randrange(QUEUES)
    for group in (ORDERED, TAGGED):
        row = operator.backlog(group, queue)
        operator.move(group, queue, min(row.max_offset, row.committed + _FORTH))


def _replace_a_member(run: Run) -> None:
    """Kill a member and have another one join; which queues it gets is the group's affair."""
    run.kill(run.rng.choice(run.members(ORDERED)))
    run.start_client("ordered", ORDERED)


Deed = Callable[[Run, Operator], None]
DEEDS: Sequence[Deed] = (
    suspend_and_kill,
    skip_while_running,
    park_while_running,
    park_and_skip_suspended,
    go_back,
    pass_over_and_undo,
    pass_over,
)


def read_letters(run: Run, group: str) -> None:
    """Write down the dead letters of a group, and what each gives as its reason."""
    reading = run.recorder.invoke(Verb.LETTERS, group=group)
    path = f"/api/v1/topics/%25DLQ%25{group}/queues/0/messages?offset=0&max=1000"
    status, answer = run.broker.call("GET", path)
    if status == 404:
        reading.ok(letters=[], reasons={})
        return
    assert status == 200, answer
    letters, reasons = [], {}
    for message in answer["messages"]:
        properties, number = message["properties"], int(message["offset"])
        letters.append(
            [
                number,
                id_of(message["body"].encode()),
                digest_of(message["body"].encode()),
                message["reconsume_times"],
                message["origin_topic"],
                int(properties["ORIGIN_QUEUE"]),
                int(properties["ORIGIN_OFFSET"]),
            ]
        )
        reasons[str(number)] = json.dumps(message.get("attempts", []))
    reading.ok(letters=letters, reasons=reasons)
