"""The arithmetic of a topic that changes its number of queues."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.topics.queuecounts import QueueCounts, at_rest, changed, settled

counts = st.lists(st.integers(1, 12), min_size=3, max_size=3).map(
    lambda found: QueueCounts(write=min(found), target=sorted(found)[1], queue_count=max(found))
)


def of(write: int, target: int, queue_count: int) -> QueueCounts:
    return QueueCounts(write=write, target=target, queue_count=queue_count)


@pytest.mark.parametrize(
    ("before", "wanted", "drain", "after"),
    [
        (at_rest(4), 8, None, of(8, 8, 8)),
        (at_rest(4), 8, False, of(8, 8, 8)),
        (at_rest(4), 8, True, of(4, 8, 8)),
        (at_rest(4), 2, None, of(2, 2, 4)),
        (at_rest(4), 2, True, of(2, 2, 4)),
        (at_rest(4), 2, False, of(2, 2, 4)),
        (at_rest(4), 4, True, at_rest(4)),
        # The number that is under way already.
        (of(4, 8, 8), 8, None, of(4, 8, 8)),
        (of(4, 8, 8), 8, True, of(4, 8, 8)),
        (of(4, 8, 8), 8, False, at_rest(8)),
        (of(2, 2, 4), 2, False, of(2, 2, 4)),
        # An operator who changes his mind.
        (of(4, 8, 8), 4, None, of(4, 4, 8)),
        (of(4, 8, 8), 2, None, of(2, 2, 8)),
        (of(4, 8, 8), 6, True, of(4, 6, 8)),
        (of(2, 2, 4), 4, None, at_rest(4)),
        (of(2, 2, 4), 4, True, of(2, 4, 4)),
        (of(2, 2, 4), 8, True, of(2, 8, 8)),
        (of(2, 2, 4), 1, None, of(1, 1, 4)),
    ],
)
def test_a_change_begins_with_what_may_be_done_at_once(
    before: QueueCounts, wanted: int, drain: bool | None, after: QueueCounts
) -> None:
    assert changed(before, wanted, drain=drain) == after


@given(counts, st.integers(1, 12), st.sampled_from([True, False, None]))
def test_whatever_is_asked_for_becomes_the_target_and_no_queue_goes_at_once(
    before: QueueCounts, wanted: int, drain: bool | None
) -> None:
    after = changed(before, wanted, drain=drain)

    assert after.target == wanted
    assert after.queue_count == max(before.queue_count, wanted)


@given(counts, st.integers(1, 12))
def test_with_a_drain_no_queue_takes_messages_that_took_none_before(
    before: QueueCounts, wanted: int
) -> None:
    after = changed(before, wanted, drain=True)

    assert after.write <= before.write


@given(counts, st.integers(1, 12), st.sampled_from([True, None]))
def test_a_request_that_is_repeated_changes_nothing(
    before: QueueCounts, wanted: int, drain: bool | None
) -> None:
    once = changed(before, wanted, drain=drain)

    assert changed(once, wanted, drain=drain) == once
    assert changed(once, wanted, drain=None) == once


@given(counts)
def test_what_is_read_and_empty_ends_at_the_target(before: QueueCounts) -> None:
    after = settled(before, is_drained=True, is_closed=True)

    assert after == at_rest(before.target)
    assert after.is_at_rest
    assert settled(before, is_drained=False, is_closed=False) == before
