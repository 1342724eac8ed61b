"""Every checker against good histories, and against the same histories with one thing made wrong.

A good history comes from `simulation`. Where something is made wrong is chosen by fixed seeds: a
test that may fail by its draw says nothing when it fails. A mutation chooses only among victims
whose loss can be seen; a checker that it does not alarm would be worth nothing.
"""

import functools
import random
from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.histories import (
    duplicates,
    exclusive,
    filtering,
    health,
    judge,
    liveness,
    loss,
    offsets,
    order,
    phantoms,
    progress,
    structure,
    takeover,
)
from tests.histories.deliveries import Delivery, deliveries_of
from tests.histories.events import Event, Kind, Verb
from tests.histories.faults import pauses_of
from tests.histories.history import History, Operation, of_events
from tests.histories.sends import Place, is_acked, sends_of
from tests.histories.simulation import LEASE_MS, ORDERED, TAGGED, TOPIC, good_events
from tests.histories.verdicts import Validity, Verdict, are_valid
from tests.rounds import rounds

SEEDS = range(4)
Events = list[Event]
Mutation = Callable[[Events, random.Random], Events]
CHECKS = {
    module.NAME: module.check
    for module in (
        loss, phantoms, offsets, order, duplicates, exclusive, progress, filtering, liveness,
        structure,
    )
} | {
    "run": health.check,
    # In this world nobody acts on what was true before, so nothing has to settle.
    duplicates.NAME: functools.partial(duplicates.check, settle_s=0.0),
}  # fmt: skip


def validity(name: str, history: History) -> Validity:
    """Return what one checker says, and print why."""
    verdict: Verdict = CHECKS[name](history)
    print(verdict)
    return verdict.validity


@pytest.fixture(scope="module", params=SEEDS)
def good(request: pytest.FixtureRequest) -> Events:
    """Return the events of a world in which every promise holds."""
    print(f"seed {request.param}")
    return good_events(request.param)


def test_a_good_history_is_valid_in_every_respect(good: Events) -> None:
    history = of_events(good)
    verdicts = [
        duplicates.check(history, settle_s=0.0),
        *judge.judged(history),
        takeover.check(history, lease_s=LEASE_MS / 1_000),
    ]
    print("\n".join(map(str, verdicts)))

    assert are_valid(verdicts)


def test_a_good_history_went_through_everything_that_can_be_mutated(good: Events) -> None:
    history = of_events(good)
    counts = {
        name: count
        for check in (duplicates.check, exclusive.check, loss.check, filtering.check)
        for name, count in check(history).counts.items()
    }
    wanted = {
        "after a client's end", "after a client's pause", "after retry",
        "take-overs", "granted after a restart", "renewals", "stale_refused",
        "unknown sends that came",         "passed over",
    }  # fmt: skip

    assert are_valid([health.sometimes(wanted, counts)])


# What a mutation needs of a history.


def ordered_deliveries(events: Events) -> list[Delivery]:
    return [d for d in deliveries_of(of_events(events)) if d.group == ORDERED]


def delivered_once(events: Events, group: str = ORDERED) -> list[Delivery]:
    """Return messages of a group that were acknowledged to their producer and came exactly once."""
    history = of_events(events)
    sends = sends_of(history)
    found: dict[str, list[Delivery]] = {}
    for delivery in deliveries_of(history):
        if delivery.group == group and is_acked(sends.by_id[delivery.id]):
            found.setdefault(delivery.id, []).append(delivery)
    return [given[0] for given in found.values() if len(given) == 1]


def operations(events: Events, verb: Verb, kind: Kind = Kind.OK) -> list[Operation]:
    return [operation for operation in of_events(events).of(verb) if operation.kind is kind]


def is_of(event: Event, operation: Operation) -> bool:
    return (event.process, event.number) == operation.key


def without(events: Events, *dropped: Operation) -> Events:
    keys = {operation.key for operation in dropped}
    return [event for event in events if (event.process, event.number) not in keys]


def changed(events: Events, operation: Operation, change: Callable[[Event], Event]) -> Events:
    """Change both events of an operation."""
    return [change(event) if is_of(event, operation) else event for event in events]


def asking(events: Events, operation: Operation, **values: object) -> Events:
    """Change what an operation asked."""

    def change(event: Event) -> Event:
        is_asked = event.kind is Kind.INVOKE
        return event._replace(values={**event.values, **values}) if is_asked else event

    return changed(events, operation, change)


def told(events: Events, operation: Operation, kind: Kind, **values: object) -> Events:
    """Change what an operation was told."""

    def change(event: Event) -> Event:
        if event.kind is Kind.INVOKE:
            return event
        return event._replace(kind=kind, values={**event.values, **values})

    return changed(events, operation, change)


def later(events: Events, operation: Operation, by_ns: int) -> Events:
    """Move an operation to another time."""
    return changed(events, operation, lambda event: event._replace(at_ns=event.at_ns + by_ns))


# The mutations: each makes one thing wrong.


def lose_a_message(events: Events, rng: random.Random) -> Events:
    return without(events, rng.choice(delivered_once(events)).operation)


def lose_a_message_before_another(events: Events, rng: random.Random) -> Events:
    """Lose one between others: the first and the last of a queue leave no gap."""
    offsets_of: defaultdict[Place, list[int]] = defaultdict(list)
    for delivery in ordered_deliveries(events):
        offsets_of[delivery.place].append(delivery.offset)
    inner = [
        d
        for d in delivered_once(events)
        if min(offsets_of[d.place]) < d.offset < max(offsets_of[d.place])
    ]
    return without(events, rng.choice(inner).operation)


def lose_a_message_of_the_filtered_group(events: Events, rng: random.Random) -> Events:
    return without(events, rng.choice(delivered_once(events, TAGGED)).operation)


def repeat_a_delivery(events: Events, rng: random.Random) -> Events:
    """Repeat it at once, by the same client: nothing happened in between."""
    operation = rng.choice(delivered_once(events)).operation
    shift_ns = operation.end_ns - operation.start_ns
    repeated = [
        event._replace(number=event.number + 1_000_000, at_ns=event.at_ns + shift_ns)
        for event in events
        if is_of(event, operation)
    ]
    return events + repeated


def repeat_a_delivery_after_its_commit(events: Events, rng: random.Random) -> Events:
    """Repeat an early delivery of a client that never stood still at the very end."""
    paused = pauses_of(of_events(events))
    operation = next(
        d for d in delivered_once(events) if d.operation.process not in paused
    ).operation
    shift_ns = events[-1].at_ns - operation.start_ns
    return events + [
        event._replace(number=event.number + 1_000_000, at_ns=event.at_ns + shift_ns)
        for event in events
        if is_of(event, operation)
    ]


def swap_two_messages(events: Events, rng: random.Random) -> Events:
    """Swap neighbours of one key in a queue."""
    keys = {
        message[0]: message[1]
        for operation in of_events(events).of(Verb.SEND)
        for message in operation.asked["messages"]
    }
    once = delivered_once(events)
    at = {(delivery.place, delivery.offset): delivery for delivery in once}
    pairs = [
        (delivery, following)
        for delivery in once
        if (following := at.get((delivery.place, delivery.offset + 1))) is not None
        and keys[delivery.id] == keys[following.id]
    ]
    first, second = rng.choice(pairs)
    swapped = asking(events, first.operation, messages=second.operation.asked["messages"])
    return asking(swapped, second.operation, messages=first.operation.asked["messages"])


def delay_a_delivery_beyond_its_lease(events: Events, rng: random.Random) -> Events:
    operation = rng.choice(delivered_once(events)).operation
    return later(events, operation, by_ns=60_000 * 1_000_000)


def let_a_listener_run_over_the_next(events: Events, rng: random.Random) -> Events:
    """Lengthen a listener's run until the next one of the queue has begun, within the lease."""
    found = ordered_deliveries(events)
    follower: dict[Place, Delivery] = {}
    for delivery in reversed(found):
        following = follower.get(delivery.place)
        follower[delivery.place] = delivery
        if following is not None and following.start_ns - delivery.start_ns < 50_000_000:
            break
    else:
        pytest.fail("no two deliveries of a queue are close")
    return [
        event._replace(at_ns=following.start_ns + 1)
        if is_of(event, delivery.operation) and event.kind is not Kind.INVOKE
        else event
        for event in events
    ]


def say_that_a_stored_send_failed(events: Events, rng: random.Random) -> Events:
    send = rng.choice(operations(events, Verb.SEND))
    return told(events, send, Kind.FAIL, code="stopping")


def accept_a_stale_commit(events: Events, rng: random.Random) -> Events:
    return told(events, rng.choice(operations(events, Verb.COMMIT, Kind.FAIL)), Kind.OK)


def commit_too_much(events: Events, rng: random.Random) -> Events:
    """Commit one more than is done, where it is not the end of the queue."""
    commit = operations(events, Verb.COMMIT)[0]
    ((topic, queue, _, epoch),) = commit.asked["offsets"]
    return asking(events, commit, offsets=[[topic, queue, 1_000_000, epoch]])


def drop_the_epoch_of_a_commit(events: Events, rng: random.Random) -> Events:
    ordered = [o for o in operations(events, Verb.COMMIT) if o.asked["group"] == ORDERED]
    commit = rng.choice(ordered)
    ((topic, queue, offset, _),) = commit.asked["offsets"]
    return asking(events, commit, offsets=[[topic, queue, offset, None]])


def change_a_body(events: Events, rng: random.Random) -> Events:
    operation = rng.choice(deliveries_of(of_events(events))).operation
    ((id_, offset, _),) = operation.asked["messages"]
    return asking(events, operation, messages=[[id_, offset, "another digest"]])


def deliver_what_nobody_sent(events: Events, rng: random.Random) -> Events:
    operation = rng.choice(deliveries_of(of_events(events))).operation
    ((_, offset, digest),) = operation.asked["messages"]
    return asking(events, operation, messages=[["phantom", offset, digest]])


def move_the_progress_back(events: Events, rng: random.Random) -> Events:
    reading = operations(events, Verb.PROGRESS)[-1]
    zeroed = [[topic, queue, 0, end] for topic, queue, _, end in reading.told["offsets"]]
    return told(events, reading, Kind.OK, offsets=zeroed)


def give_a_lock_to_another_client(events: Events, rng: random.Random) -> Events:
    """Grant somebody else the lock of a queue whose holder is delivering and has just got it."""
    grants = [o for o in operations(events, Verb.LOCK) if o.told["locked"]]
    victim = rng.choice(grants)
    ((topic, queue, epoch, lease_ms),) = victim.told["locked"]
    at_ns = victim.end_ns + 10
    asked = {"group": ORDERED, "client": "thief", "queues": [[topic, queue]]}
    locked = [[topic, queue, epoch + 1, lease_ms]]
    return [
        *events,
        Event("thief", 0, Kind.INVOKE, Verb.LOCK, at_ns, at_ns, asked),
        Event("thief", 0, Kind.OK, Verb.LOCK, at_ns + 10, at_ns, {"locked": locked, "refused": []}),
    ]


def begin_epochs_again(events: Events, rng: random.Random) -> Events:
    """Let the last client that took over a queue have the very first epoch."""
    grants = [o for o in operations(events, Verb.LOCK) if o.told["locked"]]
    last = grants[-1]
    ((topic, queue, _, lease_ms),) = last.told["locked"]
    return told(events, last, Kind.OK, locked=[[topic, queue, 0, lease_ms]])


def forget_the_locks(events: Events, rng: random.Random) -> Events:
    return without(events, *operations(events, Verb.LOCK))


def deliver_a_wrong_tag(events: Events, rng: random.Random) -> Events:
    """Say of a delivered message that it was sent with another tag."""
    delivered = rng.choice(delivered_once(events, TAGGED)).id
    send = next(
        o
        for o in of_events(events).of(Verb.SEND)
        if any(message[0] == delivered for message in o.asked["messages"])
    )
    messages = [
        [id_, key, "wrong" if id_ == delivered else tag, digest]
        for id_, key, tag, digest in send.asked["messages"]
    ]
    return asking(events, send, messages=messages)


def stop_a_queue_after_the_heal(events: Events, rng: random.Random) -> Events:
    """Take a queue's deliveries away from the heal on, and its progress with them."""
    healed_ns = max(e.at_ns for e in events if e.values.get("fault") == "heal")
    reading = next(o for o in operations(events, Verb.PROGRESS) if o.start_ns >= healed_ns)
    behind = [q for _, q, committed, end in reading.told["offsets"] if committed < end]
    queue = rng.choice(behind)
    stopped = without(
        events,
        *(
            delivery.operation
            for delivery in ordered_deliveries(events)
            if delivery.start_ns >= healed_ns and delivery.place.queue == queue
        ),
    )
    stood_still = {q: committed for _, q, committed, _ in reading.told["offsets"]}
    for later_reading in operations(stopped, Verb.PROGRESS):
        if later_reading.start_ns >= healed_ns and later_reading.asked["group"] == ORDERED:
            offsets = [
                [topic, q, stood_still[q] if q == queue else committed, end]
                for topic, q, committed, end in later_reading.told["offsets"]
            ]
            stopped = told(stopped, later_reading, Kind.OK, offsets=offsets)
    return stopped


def give_a_place_again(events: Events, rng: random.Random) -> Events:
    """Answer a send with places that were given before it: a restart has forgotten some."""
    sends = operations(events, Verb.SEND)
    victim = rng.choice(sends[len(sends) // 2 :])
    earlier = rng.choice([s for s in sends if s.end_ns < victim.start_ns])
    queue, offset = earlier.told["places"][0]
    places = [[queue, offset + index] for index in range(len(victim.told["places"]))]
    return told(events, victim, Kind.OK, places=places)


def leave_a_hole(events: Events, rng: random.Random) -> Events:
    """Let a queue jump: from a send on, all its places are a thousand further on."""
    queue, first = rng.choice(operations(events, Verb.SEND)[1:]).told["places"][0]

    def moved(offset: int) -> int:
        return offset + 1_000 if offset >= first else offset

    def change(event: Event) -> Event:
        values = event.values
        if "places" in values:
            places = [[q, moved(o) if q == queue else o] for q, o in values["places"]]
            return event._replace(values={**values, "places": places})
        if event.verb is Verb.DELIVER and values.get("queue") == queue:
            messages = [[id_, moved(o), digest] for id_, o, digest in values["messages"]]
            return event._replace(values={**values, "messages": messages})
        return event

    return list(map(change, events))


def take_back_the_end_of_a_queue(events: Events, rng: random.Random) -> Events:
    """Read a shorter queue in the end than there was: what was cut had been seen."""
    reading = operations(events, Verb.PROGRESS)[-1]
    offsets_told = [list(row) for row in reading.told["offsets"]]
    victim = rng.choice([row for row in offsets_told if row[3] > 2])
    victim[3] -= 2
    return told(events, reading, Kind.OK, offsets=offsets_told)


def inspected(events: Events) -> Operation:
    """Return what was found in the store."""
    (inspection,) = operations(events, Verb.INSPECT)
    return inspection


def lose_a_record(events: Events, rng: random.Random) -> Events:
    """Lose what the log had, and keep its entry in the queue."""
    inspection = inspected(events)
    records = list(inspection.told["records"])
    records.remove(rng.choice(records))
    return told(events, inspection, Kind.OK, records=records)


def lose_the_end_of_a_queue_and_its_records(events: Events, rng: random.Random) -> Events:
    """Cut a queue and the log at the same place: together they are whole."""
    inspection = inspected(events)
    queues = [list(row) for row in inspection.told["queues"]]
    acked = {
        (queue, offset)
        for send in operations(events, Verb.SEND)
        for queue, offset in send.told["places"]
    }
    victim = rng.choice([row for row in queues if (row[1], row[3] - 1) in acked])
    victim[3] -= 1
    records = [r for r in inspection.told["records"] if r[1:3] != [victim[1], victim[3]]]
    return told(events, inspection, Kind.OK, records=records, queues=queues)


def exchange_two_records(events: Events, rng: random.Random) -> Events:
    inspection = inspected(events)
    records = [list(row) for row in inspection.told["records"]]
    first, second = rng.sample(records, 2)
    first[3:], second[3:] = second[3:], first[3:]
    return told(events, inspection, Kind.OK, records=records)


def go_back_an_epoch(events: Events, rng: random.Random) -> Events:
    inspection = inspected(events)
    epochs = [*inspection.told["epochs"], inspection.told["epochs"][-1] - 1]
    return told(events, inspection, Kind.OK, epochs=epochs)


def derive_a_wrong_entry(events: Events, rng: random.Random) -> Events:
    return told(events, inspected(events), Kind.OK, faults=["entry 3 of orders/0 is elsewhere"])


def fail_most_sends(events: Events, rng: random.Random) -> Events:
    asked = {"producer": "p", "topic": TOPIC, "messages": []}
    at_ns = events[-1].at_ns
    return events + [
        event
        for number in range(len(events))
        for event in (
            Event("failing", number, Kind.INVOKE, Verb.SEND, at_ns, at_ns, asked),
            Event("failing", number, Kind.INFO, Verb.SEND, at_ns, at_ns, {"code": "unanswered"}),
        )
    ]


def make_no_fault(events: Events, rng: random.Random) -> Events:
    return [event for event in events if event.verb is not Verb.NEMESIS]


CAUGHT: tuple[tuple[Mutation, str], ...] = (
    (lose_a_message, loss.NAME),
    (lose_a_message_before_another, order.NAME),
    (lose_a_message_of_the_filtered_group, loss.NAME),
    (lose_a_message_of_the_filtered_group, filtering.NAME),
    (repeat_a_delivery, duplicates.NAME),
    (repeat_a_delivery_after_its_commit, duplicates.NAME),
    (repeat_a_delivery_after_its_commit, order.NAME),
    (swap_two_messages, order.NAME),
    (delay_a_delivery_beyond_its_lease, exclusive.NAME),
    (delay_a_delivery_beyond_its_lease, order.NAME),
    (let_a_listener_run_over_the_next, exclusive.NAME),
    (say_that_a_stored_send_failed, phantoms.NAME),
    (accept_a_stale_commit, exclusive.NAME),
    (commit_too_much, progress.NAME),
    (drop_the_epoch_of_a_commit, exclusive.NAME),
    (change_a_body, phantoms.NAME),
    (deliver_what_nobody_sent, phantoms.NAME),
    (move_the_progress_back, progress.NAME),
    (move_the_progress_back, liveness.NAME),
    (give_a_lock_to_another_client, exclusive.NAME),
    (begin_epochs_again, exclusive.NAME),
    (forget_the_locks, exclusive.NAME),
    (deliver_a_wrong_tag, filtering.NAME),
    (stop_a_queue_after_the_heal, liveness.NAME),
    (give_a_place_again, offsets.NAME),
    (leave_a_hole, offsets.NAME),
    (take_back_the_end_of_a_queue, offsets.NAME),
    (lose_a_record, structure.NAME),
    (lose_the_end_of_a_queue_and_its_records, structure.NAME),
    (exchange_two_records, structure.NAME),
    (go_back_an_epoch, structure.NAME),
    (derive_a_wrong_entry, structure.NAME),
    (fail_most_sends, "run"),
    (make_no_fault, "run"),
)


CASES = [pytest.param(*case, id=f"{case[0].__name__} - {case[1]}") for case in CAUGHT]


@pytest.mark.parametrize(("mutation", "name"), CASES)
def test_a_mutation_is_caught(good: Events, mutation: Mutation, name: str) -> None:
    check_caught(good, mutation, name, seed=0)


@pytest.mark.crash
@pytest.mark.parametrize(("mutation", "name"), CASES)
def test_a_mutation_is_caught_wherever_it_is(good: Events, mutation: Mutation, name: str) -> None:
    for seed in range(1, 1 + rounds(2)):
        check_caught(good, mutation, name, seed=seed)


def check_caught(events: Events, mutation: Mutation, name: str, *, seed: int) -> None:
    """Assert that a checker sees a mutation of some seed."""
    print(f"mutation seed {seed}")

    mutated = of_events(mutation(events, random.Random(seed)))

    assert validity(name, mutated) is Validity.INVALID


def test_every_checker_is_shown_to_catch_something() -> None:
    assert {name for _, name in CAUGHT} == set(CHECKS)


def test_without_its_last_readings_a_run_is_not_known_to_be_complete(good: Events) -> None:
    unread = of_events(without(good, *operations(good, Verb.PROGRESS)))

    assert validity(liveness.NAME, unread) is Validity.UNKNOWN
    assert validity(filtering.NAME, unread) is Validity.VALID
