"""INV-11 by hand: a store that lacks what clients know, has what nobody sent, or is not whole."""

import pytest

from tests.histories import structure
from tests.histories.building import Story
from tests.histories.events import Kind
from tests.histories.verdicts import Validity, Verdict


def judged(told: Story) -> Verdict:
    """Return what INV-11 says."""
    verdict = structure.check(told.history())
    print(verdict)
    return verdict


def sent(*ids: str) -> Story:
    """Send messages into one queue, and let the first be delivered."""
    return Story().send(*ids).deliver((ids[0], 0), at_ms=100)


def test_a_store_with_all_that_was_sent_is_right() -> None:
    verdict = judged(sent("a", "b").inspect("a", "b", at_ms=200, epochs=(1, 2)))

    assert verdict.validity is Validity.VALID
    assert (verdict.counts["records"], verdict.counts["known places"]) == (2, 3)


@pytest.mark.parametrize(
    "told",
    [
        sent("a", "b").inspect("a", at_ms=200),
        sent("a", "b").inspect("b", "a", at_ms=200),
        sent("a", "b").inspect("a", "", at_ms=200),
        sent("a", "b").inspect("a", "b", at_ms=200, end=3),
        sent("a", "b").inspect("a", "b", at_ms=200, end=1),
        sent("a", "b").inspect("a", "b", "c", at_ms=200),
        sent("a", "b").inspect("a", "b", at_ms=200, faults=("entry 1 is elsewhere",)),
        sent("a", "b").inspect("a", "b", at_ms=200, epochs=(2, 1)),
        Story().send("a").deliver(("a", 0), at_ms=9, digest="other").inspect("a", at_ms=200),
        sent("a", "b").progress(0, 3, at_ms=110).inspect("a", "b", at_ms=200),
    ],
    ids=[
        "an acknowledged message is not there",
        "two are exchanged",
        "an entry without its record",
        "an entry too many",
        "an entry too few",
        "a record that nobody sent",
        "what does not fit together",
        "an epoch that fell",
        "another body than was delivered",
        "an end that was read and is gone",
    ],
)
def test_a_wrong_store_is_noticed(told: Story) -> None:
    assert judged(told).validity is Validity.INVALID


def test_what_nobody_had_an_answer_about_may_be_there_or_not() -> None:
    told = sent("a").send("b", at_ms=50, kind=Kind.INFO)

    assert judged(told.inspect("a", "b", at_ms=200)).validity is Validity.VALID
    assert judged(sent("a").inspect("a", at_ms=200)).validity is Validity.VALID


def test_what_is_sent_after_an_inspection_is_not_missed_in_it() -> None:
    told = sent("a").inspect("a", at_ms=200).send("b", at_ms=300, offset=1)

    assert judged(told).validity is Validity.VALID


def test_without_an_inspection_nothing_is_known() -> None:
    assert judged(sent("a")).validity is Validity.UNKNOWN
