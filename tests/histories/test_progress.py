"""INV-10 by hand: committed offsets only grow, and never pass what is not done."""

import pytest

from tests.histories import progress
from tests.histories.building import GROUP, TOPIC, Story
from tests.histories.events import Verb
from tests.histories.verdicts import Validity


def done(*offsets: int, told: Story | None = None) -> Story:
    """Send and do these offsets, from 100 ms on."""
    told = told or Story()
    for step, offset in enumerate(offsets):
        told.send(f"m{offset}", at_ms=1 + 2 * step, offset=offset)
        told.deliver((f"m{offset}", offset), at_ms=100 + 2 * step)
    return told


def found(told: Story) -> Validity:
    """Return what the checker says."""
    verdict = progress.check(told.history())
    print(verdict)
    return verdict.validity


def test_commits_and_readings_that_follow_what_is_done_are_right() -> None:
    told = done(0, 1, 2).progress(0, 3, at_ms=104).commit(2, at_ms=110).progress(2, 3, at_ms=120)

    assert found(told.commit(3, at_ms=130).progress(3, 3, at_ms=140)) is Validity.VALID


def test_a_commit_of_what_is_not_done_is_noticed() -> None:
    assert found(done(0, 1).commit(3, at_ms=110)) is Validity.INVALID
    assert found(done(0, 2).send("m1", at_ms=9, offset=1).commit(3, at_ms=110)) is Validity.INVALID
    assert found(Story().send("m0").commit(1, at_ms=110)) is Validity.INVALID


def test_a_commit_that_left_before_the_listener_returned_is_noticed() -> None:
    told = Story().send("m0").deliver(("m0", 0), at_ms=100, took_ms=50)

    assert found(told.commit(1, at_ms=120)) is Validity.INVALID


def test_a_listener_that_failed_has_not_done_it() -> None:
    told = Story().send("m0").deliver(("m0", 0), at_ms=100, done=0)

    assert found(told.commit(1, at_ms=120)) is Validity.INVALID


def test_a_refused_commit_claims_nothing() -> None:
    told = done(0).commit(7, at_ms=110, code="lock_lost").commit(1, at_ms=120)

    assert found(told) is Validity.VALID


def test_a_reading_behind_a_commit_is_noticed() -> None:
    assert found(done(0, 1).commit(2, at_ms=110).progress(1, 2, at_ms=120)) is Validity.INVALID


def test_a_reading_behind_an_earlier_reading_is_noticed() -> None:
    told = done(0, 1).progress(2, 2, at_ms=110).progress(1, 2, at_ms=120)

    assert found(told) is Validity.INVALID


def test_a_reading_ahead_of_what_is_done_is_noticed() -> None:
    assert found(done(0, 1).progress(3, 4, at_ms=110)) is Validity.INVALID


def test_a_reading_during_a_commit_may_be_either() -> None:
    told = done(0, 1).commit(2, at_ms=110).progress(0, 2, at_ms=110.5)

    assert found(told) is Validity.VALID


@pytest.mark.parametrize(("offset", "expected"), [(0, Validity.VALID), (None, Validity.INVALID)])
def test_only_a_reset_moves_a_group_back(offset: int | None, expected: Validity) -> None:
    told = done(0, 1).commit(2, at_ms=110).progress(2, 2, at_ms=120)
    if offset is not None:
        told.notice(130, Verb.RESET, group=GROUP, topic=TOPIC, queue=0, offset=offset)

    assert found(told.progress(0, 2, at_ms=140)) is expected


def test_progress_survives_a_restart_or_not() -> None:
    told = done(0, 1).commit(2, at_ms=110).fault("kill", "broker", at_ms=120)

    assert found(told.start_broker(at_ms=130).progress(0, 2, at_ms=140)) is Validity.INVALID


def test_what_is_filtered_out_needs_not_be_done() -> None:
    told = Story(tags=["x"]).send("m0", tag="x").send("m1", at_ms=5, offset=1, tag="y")
    told.deliver(("m0", 0), at_ms=100)

    assert found(told.commit(2, at_ms=110)) is Validity.VALID


def test_a_message_given_up_counts_as_done() -> None:
    told = Story().send("m0").deliver(("m0", 0), at_ms=100, done=0)
    told.notice(110, Verb.DEAD, group=GROUP, topic=TOPIC, queue=0, offset=0)

    assert found(told.commit(1, at_ms=120)) is Validity.VALID


def test_without_commits_and_readings_nothing_is_known() -> None:
    assert found(done(0, 1)) is Validity.UNKNOWN
