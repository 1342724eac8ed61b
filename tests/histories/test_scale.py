"""A million events are judged while one waits."""

import gc
import time

import pytest

from tests.histories import judge
from tests.histories.history import of_events
from tests.histories.simulation import good_events
from tests.histories.verdicts import are_valid

# The checkers are meant to take half a minute on an idle machine; a slow one may take longer.
JUDGE_S_MAX = 180.0


@pytest.mark.longest
@pytest.mark.crash
def test_a_million_events_are_judged_while_one_waits() -> None:
    events = good_events(1, steps=560_000)
    assert len(events) >= 1_000_000
    # What is alive stays alive, so looking for garbage among it again and again shows nothing.
    gc.freeze()

    started_s = time.process_time()
    verdicts = judge.judged(of_events(events))
    took_s = time.process_time() - started_s

    print(f"{len(events)} events in {took_s:.1f} s of CPU", *verdicts, sep="\n")
    gc.unfreeze()
    assert are_valid(verdicts)
    assert took_s < JUDGE_S_MAX
