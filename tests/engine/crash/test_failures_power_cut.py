"""The power is cut at every sync of a delay, a send-back, a burial, a resend, a late sending.

Whatever survives, the work is done again from the beginning, as clients and beats do it; each
message must then be in its target exactly once, and what was answered before the cut must hold.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from apps.engine.caretypes import CareAct
from apps.engine.codec.record import encode_record
from apps.engine.errors import HeadMoved, SyncFailed
from apps.engine.failuretypes import Resend
from apps.engine.testing.crashes import CrashMode
from apps.engine.types import GroupSpec, RecordBatch
from tests.engine.broker.failurebench import FailureBench

COUNT = 4
BODIES = [b"%d" % number for number in range(COUNT)]


@dataclass(frozen=True, slots=True)
class Work:
    """What is there before, what is done while the power is cut, and how often what is where."""

    prepare: Callable[[FailureBench], None]
    act: Callable[[FailureBench], None]
    topic: str
    copies: int = 1
    groups: tuple[GroupSpec, ...] = ()


def put_each(bench: FailureBench, **properties: str) -> None:
    """Send what is not there yet, one by one; what waits or was delivered is there."""
    levels = bench.broker.queues.find("SCHEDULE_TOPIC_XXXX", 0)
    known = len(bench.records()) if levels is None else levels.end
    for body in BODIES[known:]:
        bench.put(body, **properties)


def delay_and_deliver(bench: FailureBench) -> None:
    """Send with a level, and deliver one message at a time when it is due."""
    put_each(bench, DELAY="1")
    bench.clock.advance(1_000)
    bench.broker.checkpoint()
    (queue,) = bench.broker.schedule.queues()
    while (due := bench.broker.schedule.due(queue, messages_max=1, wait=True)) is not None:
        assert bench.broker.schedule.deliver(due) == 1
        bench.sync()


def send_back_and_deliver(bench: FailureBench) -> None:
    """Send back one by one, and deliver the retries."""
    for offset in range(COUNT):
        bench.send_back(offset, delay_level=1)
    bench.broker.checkpoint()
    bench.clock.advance(1_000)
    bench.deliver()


def receive_and_bury(bench: FailureBench) -> None:
    """Let leases of two messages expire, and bury them."""
    for _ in range(COUNT):
        bench.receive(most=2, invisible_ms=1_000)
        bench.sync()
        bench.clock.advance(1_000)
        bench.bury()
    bench.broker.checkpoint()


def park_each(bench: FailureBench) -> None:
    """Park the head, and the next one, as an operator who repeats what was not answered."""
    for offset in range(COUNT):
        try:
            bench.attend(CareAct.PARK, offset)
        except HeadMoved:
            assert bench.committed() > offset
    assert bench.committed() == COUNT
    bench.broker.checkpoint()


def resend(bench: FailureBench) -> None:
    """Send dead letters again, one by one."""
    for offset in range(COUNT):
        (result,) = bench.resend([offset])
        assert result.outcome in (Resend.SENT, Resend.ALREADY)
    bench.broker.checkpoint()


def put_dead(bench: FailureBench) -> None:
    """Have dead letters."""
    put_each(bench)
    bench.send_back(*range(COUNT), delay_level=-1)


def put_given_up(bench: FailureBench) -> None:
    """Have transactions that nobody decided."""
    for body in BODIES:
        record = encode_record(topic=b"orders", queue=0, body=body)
        batch = RecordBatch(
            topic="orders",
            queue=0,
            payload=bytearray(record),
            sizes=np.array([len(record)], dtype=np.int32),
        )
        bench.broker.transactions.begin(batch, producer_group="p", check_immunity_ms=0)
    for half in bench.broker.checks.pending(None, -1, COUNT):
        assert bench.broker.checks.give_up(half, wait=True)
    bench.sync()


def send_given_up(bench: FailureBench) -> None:
    """Send given-up messages after all, one by one."""
    givenup = bench.broker.givenup
    for found in reversed(givenup.page(before=None, messages_max=COUNT, wait=True).messages):
        assert found.transaction_id is not None
        givenup.send(
            found.given_up_offset, transaction_id=found.transaction_id, by="ann", wait=True
        )
        bench.sync()
    bench.broker.checkpoint()


def nothing(bench: FailureBench) -> None:
    """Have nothing."""
    del bench


WORKS = {
    "delay": Work(nothing, delay_and_deliver, "orders"),
    "send back": Work(put_each, send_back_and_deliver, "%RETRY%g"),
    "bury": Work(put_each, receive_and_bury, "%DLQ%g", groups=(GroupSpec(name="g", retry_max=0),)),
    "park": Work(put_each, park_each, "%DLQ%g", groups=(GroupSpec(name="g", ordered=True),)),
    "resend": Work(put_dead, resend, "orders", copies=2),
    "send given up": Work(put_given_up, send_given_up, "orders"),
}


def started(work: Work) -> FailureBench:
    bench = FailureBench(*work.groups)
    work.prepare(bench)
    bench.broker.checkpoint()
    return bench


def sweep(work: Work, spoil: Callable[[FailureBench], None] = nothing) -> tuple[int, int]:
    """Cut at every sync in every mode; return how many cases ran, and how many went wrong."""
    whole = started(work)
    spoil(whole)
    begin = whole.disk.sync_count
    work.act(whole)
    assert Counter(whole.bodies(work.topic)) == dict.fromkeys(BODIES, work.copies)
    cases = wrong = 0
    for cut_at in range(1, whole.disk.sync_count - begin + 1):
        bench = started(work)
        spoil(bench)
        bench.disk.fail_sync_from = bench.disk.sync_count + cut_at
        with pytest.raises(SyncFailed):
            work.act(bench)
        assert bench.disk.faults["sync"], "the fault did not fire"
        bench.disk.fail_sync_from = None
        shown = bench.bodies(work.topic)
        for modes, left in bench.disk.crash_images(cut_at):
            cases += len(modes)
            print(f"cut at sync {cut_at}, {modes}")
            again = FailureBench()
            again.clock = bench.clock
            again.disk = left
            again.open()
            is_right = again.bodies(work.topic)[: len(shown)] == shown
            work.act(again)
            found = Counter(again.bodies(work.topic))
            if not (is_right and found == dict.fromkeys(BODIES, work.copies)):
                wrong += len(modes)
    return cases, wrong


@pytest.mark.parametrize("name", WORKS)
def test_a_power_cut_at_any_sync_leaves_each_message_once(name: str) -> None:
    cases, wrong = sweep(WORKS[name])

    assert cases >= 5 * len(CrashMode)
    assert wrong == 0


@pytest.mark.parametrize("name", WORKS)
def test_messages_and_events_in_two_frames_would_be_caught(name: str) -> None:
    def spoil(bench: FailureBench) -> None:
        recorder, appender = bench.broker.recorder, bench.broker.appender
        whole = recorder.commit

        def split(events, batches=(), *, is_internal=True):  # type: ignore[no-untyped-def]
            stored = appender.write(batches, is_internal=is_internal)[0] if batches else []
            bench.broker.log.sync()
            return whole(events, is_internal=is_internal)[0], stored

        recorder.commit = split  # type: ignore[method-assign]

    cases, wrong = sweep(WORKS[name], spoil)

    assert 0 < wrong < cases
