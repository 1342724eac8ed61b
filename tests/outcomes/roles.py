"""What the clients of a run do: delay, decide, fail, repeat, read. Each is a thread's whole work.

What a message's fate is follows from its id alone, so that whoever meets it decides alike.
"""

import random
import time
import zlib
from collections.abc import Iterator
from itertools import count
from typing import Any

from apps.engine.errors import EngineError
from tests.histories.events import Verb
from tests.outcomes.calls import Teller, id_of, wall_ms
from tests.outcomes.field import (
    FAILURES_MAX,
    JOBS,
    LATER,
    LEASED,
    NUMBERED,
    PAID,
    PRODUCERS,
    READERS,
    SENT_BACK,
    Field,
)

_PAUSE_S = 0.02
_LEASE_MS = 1_500
_DELAY_MS = (20, 1_500)
# So long that even a slow machine asks for it again before it is due.
_FAR_MS = 15_000
_FAR_FATES = {3: "recall", 6: "hasten"}
# What is asked for again long after, as by a request that was held up on its way.
_KEPT = 50


def fate_of(id_: str, kinds: int) -> int:
    """Return a number that follows from an id."""
    return zlib.crc32(id_.encode()) % kinds


def _rng(field: Field, client: Teller) -> random.Random:
    return random.Random(f"{field.seed} {client.name}")


def _turns(field: Field, client: Teller, pause_s: float = _PAUSE_S) -> Iterator[str]:
    """Yield ids of new messages until the run is over."""
    for number in count():
        if field.is_over.wait(pause_s):
            return
        field.turns[client.name] += 1
        yield f"{client.name}-{number}"


def delay(field: Field, client: Teller) -> None:
    """Send messages with a delay of their own; take some back, have some come at once."""
    rng = _rng(field, client)
    handles: list[tuple[str, str]] = []
    for id_ in _turns(field, client):
        # Two of eight are taken back, and hastened, for sure: no luck and no speed decides it.
        if (what := _FAR_FATES.get(field.turns[client.name] % 8)) is not None:
            handle = client.delay(LATER, id_, delay_ms=_FAR_MS)
            if handle is not None:
                getattr(client, what)(id_, handle)
            continue
        delay_ms = rng.randrange(*_DELAY_MS)
        if rng.random() < 0.5:
            handle = client.delay(LATER, id_, delay_ms=delay_ms)
        else:
            handle = client.delay(LATER, id_, deliver_at=wall_ms() + delay_ms)
        if handle is not None:
            handles = [*handles[-_KEPT:], (id_, handle)]
        if handles and rng.random() < 0.4:
            about, handle = handles.pop(rng.randrange(len(handles)))
            (client.recall if rng.random() < 0.5 else client.hasten)(about, handle)
    field.is_drained.wait()
    for about, handle in handles[:2]:
        client.recall(about, handle)


def delay_by_levels(field: Field, client: Teller) -> None:
    """Send messages at delay levels."""
    for id_ in _turns(field, client):
        level = 1 + fate_of(id_, 2)
        client.delay(LATER, id_, delay_level=level, level_ms=level * 1_000)


def tick_levels(field: Field, client: Teller) -> None:
    """Be beat and worker: have due levels delivered, and undecided transactions given up."""
    del client
    while not field.is_drained.wait(0.2):
        try:
            while field.engine.deliver_levels().more:
                pass
            field.engine.give_up_transactions()
        except EngineError as error:
            # The broker is away; what matters is what was delivered in the end.
            print(f"tick: {error.code}")


def decide(field: Field, client: Teller) -> None:
    """Begin transactions and end them, or leave it to the checks; repeat old answers late."""
    rng = _rng(field, client)
    old: list[tuple[str, str, str]] = []
    for id_ in _turns(field, client):
        transaction = client.begin(PAID, id_, PRODUCERS)
        if transaction is None:
            continue
        outcome = ("committed", "committed", "rolled_back", None, None)[fate_of(id_, 5)]
        if outcome is not None:
            while client.end(id_, transaction, outcome) is None:
                pass
            old = [*old[-_KEPT:], (id_, transaction, outcome)]
        if old and rng.random() < 0.6:
            late_id, late, decided = rng.choice(old)
            other = "rolled_back" if decided == "committed" else "committed"
            client.end(late_id, late, rng.choice((decided, other)))


def answer_checks(field: Field, client: Teller) -> None:
    """Decide what others left open: a third is committed, a third rolled back, a third never."""
    while not field.is_drained.is_set():
        for id_, transaction in client.checks(PRODUCERS, wait_ms=200):
            outcome = ("committed", "rolled_back", None)[fate_of(f"check {id_}", 3)]
            if outcome is not None:
                client.end(id_, transaction, outcome)


def number(field: Field, client: Teller) -> None:
    """Send under numbers, again while there is no answer, and old ones again long after."""
    rng = _rng(field, client)
    old: list[tuple[list[str], int]] = []
    next_number = 0
    for id_ in _turns(field, client):
        ids = [f"{id_}.{index}" for index in range(rng.randrange(1, 5))]
        first, next_number = next_number, next_number + len(ids)
        while client.send(NUMBERED, ids, first_number=first) is None:
            pass
        old = [*old[-_KEPT:], (ids, first)]
        if rng.random() < 0.3:
            late_ids, late = rng.choice(old)
            client.send(NUMBERED, late_ids, first_number=late)


def make_jobs(field: Field, client: Teller) -> None:
    """Send work that will fail now and then."""
    for id_ in _turns(field, client):
        client.send(JOBS, [id_])


def read(topic: str) -> Any:  # A role.
    """Return the role of one who reads a topic and is content."""

    def reading(field: Field, client: Teller) -> None:
        while not field.is_drained.is_set():
            messages = client.receive(READERS[topic], topic, invisible_ms=_LEASE_MS)
            for message in messages:
                message["running"].ok(done=1)
            if messages:
                # At once: one by one, they outlast their lease on a busy machine.
                client.ack_all(READERS[topic], messages)

    return reading


def failures_of(id_: str) -> int:
    """Return how often a job fails: most never, some for good, -1 is straight to the dead."""
    fates = (0, 0, 0, 1, FAILURES_MAX, FAILURES_MAX + 1, FAILURES_MAX + 1, -1)
    return fates[fate_of(id_, len(fates))]


def fail_leases(field: Field, client: Teller) -> None:
    """Receive jobs and fail at some: by giving them back, or by letting the lease run out."""
    failed: dict[str, int] = {}
    while not field.is_drained.is_set():
        for message in client.receive(LEASED, JOBS, invisible_ms=_LEASE_MS):
            id_ = id_of(message["body"])
            before = failed.get(id_, 0)
            is_straight = failures_of(id_) < 0
            if not is_straight and before >= failures_of(id_):
                message["running"].ok(done=1)
                client.ack(LEASED, message)
                continue
            failed[id_] = before + 1
            message["running"].ok(done=0)
            if is_straight or fate_of(f"{id_} {before}", 6):
                level = -1 if is_straight else 0
                client.nack(LEASED, message, level=level, reason=f"failure {before}")


def fail_by_sending_back(field: Field, client: Teller) -> None:
    """Read jobs and retries by their queues, send back what fails and commit beyond it.

    It remembers nothing over an answer that is missing: it begins where the group is.
    """
    failed: dict[str, int] = {}
    topics = (JOBS, f"%25RETRY%25{SENT_BACK}")
    while not field.is_drained.is_set():
        have_moved = [_read_queue(field, client, topic, failed) for topic in topics]
        if True not in have_moved:
            time.sleep(_PAUSE_S)


def _read_queue(field: Field, client: Teller, topic: str, failed: dict[str, int]) -> bool:
    place = {"topic": topic.replace("%25", "%"), "queue": 0}
    begun = client.ask("POST", f"/api/v1/groups/{SENT_BACK}/offsets:begin", {"queues": [place]})
    if begun is None or begun.status != 200:
        return False
    offset = begun.document["offsets"][0]["offset"]
    path = f"/api/v1/topics/{topic}/queues/0/messages?offset={offset}&max=8&group={SENT_BACK}"
    reply = client.ask("GET", path, None)
    if reply is None or reply.status != 200:
        return False
    for message in reply.document["messages"]:
        id_ = id_of(message["body"])
        running = client.deliver(SENT_BACK, message)
        wanted, before = failures_of(id_), failed.get(id_, 0)
        is_failing = wanted < 0 or before < wanted
        running.ok(done=int(not is_failing))
        if is_failing:
            level = -1 if wanted < 0 else 0
            outcome = client.send_back(SENT_BACK, message, level=level, reason=f"failure {before}")
            if outcome is None:
                return False
            failed[id_] = before + 1
    return _commit(client, place, reply.document["next_offset"], offset)


def _commit(client: Teller, place: dict[str, Any], offset: str, before: str) -> bool:
    if offset == before:
        return False
    commit = {"offsets": [{**place, "offset": offset}]}
    client.ask("POST", f"/api/v1/groups/{SENT_BACK}/offsets:commit", commit)
    return True


def find_given_up(field: Field, client: Teller) -> None:
    """Read what nobody decided out of its topic, and write down what is there."""
    offset, topic = "0", "TRANS_CHECK_MAX_TIME_TOPIC"
    while not field.is_drained.wait(0.1):
        path = f"/api/v1/topics/{topic}/queues/0/messages?offset={offset}&max=100"
        reply = client.ask("GET", path, None)
        if reply is None or reply.status != 200:
            continue
        for message in reply.document["messages"]:
            field.notice(Verb.GIVEN_UP, id=id_of(message["body"]))
        offset = reply.document["next_offset"]
