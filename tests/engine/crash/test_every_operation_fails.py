"""Fail the Nth operation of the disk for every N, once and from then on, until a run fails nothing.

Row E9 of the fault table. One story: a store is made, opened, written over several segments, read,
settled, checkpointed, stopped and opened again. Each failure ends in an error of the engine or is
tolerated, and the store opens afterwards with all that was promised, whole.
"""

import random
from collections import Counter

import pytest

from apps.engine.broker.core import Broker, open_broker
from apps.engine.errors import EngineError
from apps.engine.failpoints import Failpoints
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import CatalogSnapshot, TopicSpec
from tests.engine.crash.failing import FailingDisk
from tests.engine.crash.test_broker_power_cut import CONFIG, QUEUES, Client, check
from tests.rounds import report

STEPS = 30
# The longest file of a sweep in `make test` fails every so many operations.
SLICE_STEP = 29
KINDS = frozenset({"open", "read", "write", "allocate", "sync", "rename", "sync directory"})


def opened(disk: FailingDisk, clock: ManualClock) -> Broker:
    broker = open_broker(disk, config=CONFIG, clock=clock, failpoints=Failpoints())
    topics = {"t": TopicSpec(name="t", queue_count=QUEUES)}
    broker.publish_catalog(CatalogSnapshot(version=1, topics=topics))
    return broker


def told(fail_at: int, *, is_lasting: bool) -> tuple[FailingDisk, Client | None, str]:
    """Tell the story with one failure; return the disk, the client, and how it ended."""
    disk, clock = FailingDisk(), ManualClock()
    disk.begin(fail_at, is_lasting=is_lasting)
    client = None
    try:
        broker = opened(disk, clock)
        client = Client(broker, seed=1, early=False)
        for _ in range(STEPS):
            client.step()
            clock.advance(7)
        broker.close()
        client.promise_all()
        opened(disk, clock).close()
    except EngineError as error:
        return disk, client, type(error).__name__
    except OSError:
        # A file that cannot be removed is the one refusal that has no error of the engine.
        if not disk.failed["remove"]:
            raise
        return disk, client, "OSError"
    return disk, client, "tolerated" if disk.failed else "whole"


def check_failure(fail_at: int, *, is_lasting: bool) -> tuple[str, Counter[str]]:
    """Fail one operation, let the process die of it, and hold the store to what was promised."""
    disk, client, end = told(fail_at, is_lasting=is_lasting)
    for mode in (CrashMode.EVERYTHING, CrashMode.NOTHING):
        left = disk.crash_image(random.Random(fail_at), mode)
        print(f"operation {fail_at}, lasting {is_lasting}, {dict(disk.failed)}, {end}, {mode}")
        if client is None:
            # The store was being made: a start goes on with that, or begins anew.
            open_broker(left, config=CONFIG, clock=ManualClock(), failpoints=Failpoints()).close()
        else:
            check(left, client)
    return end, disk.failed


def sweep(*, first: int, step: int, is_lasting: bool) -> tuple[Counter[str], Counter[str]]:
    """Fail every so many operations until none is left; return how it ended, and what failed."""
    ends: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    fail_at = first
    while True:
        end, failed = check_failure(fail_at, is_lasting=is_lasting)
        ends[end] += 1
        kinds.update(failed.keys())
        if not failed:
            return ends, kinds
        fail_at += step


@pytest.mark.parametrize("is_lasting", [False, True], ids=["once", "from then on"])
def test_any_failing_operation_ends_in_an_error_and_loses_nothing(is_lasting: bool) -> None:
    ends, kinds = sweep(first=1, step=SLICE_STEP, is_lasting=is_lasting)

    print(ends, kinds)
    assert ends["whole"] == 1
    assert len(ends) > 2


@pytest.mark.crash
@pytest.mark.parametrize("is_lasting", [False, True], ids=["once", "from then on"])
def test_every_failing_operation_ends_in_an_error_and_loses_nothing(is_lasting: bool) -> None:
    ends, kinds = sweep(first=1, step=1, is_lasting=is_lasting)

    assert ends["whole"] == 1
    assert kinds.keys() >= KINDS, "some kind of operation never failed"
    report(f"E9 {'lasting' if is_lasting else 'once'}", operations=ends.total() - 1, lost=0)
