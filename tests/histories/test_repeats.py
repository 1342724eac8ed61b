"""INV-14 by hand: one number stored twice, at two places, or called what it is not."""

from tests.histories import offsets, phantoms, repeats
from tests.histories.care_building import CareStory
from tests.histories.sends import sends_of
from tests.histories.verdicts import Validity, Verdict


def judged(told: CareStory) -> Verdict:
    """Return what INV-14 says."""
    verdict = repeats.check(told.history())
    print(verdict)
    return verdict


def test_a_number_sent_again_is_stored_once() -> None:
    told = CareStory().numbered("m", 1, at_ms=1, offset=0)
    told.numbered("m", 1, at_ms=5, offset=0, is_repeat=True).deliver(("m", 0), at_ms=9)

    verdict = judged(told)

    assert verdict.validity is Validity.VALID
    assert (verdict.counts["numbers"], verdict.counts["repeats"]) == (1, 1)


def test_after_an_unknown_answer_it_may_be_a_repeat_or_the_first() -> None:
    for is_repeat in (False, True):
        told = CareStory().numbered("m", 1, at_ms=1, offset=None)
        told.numbered("m", 1, at_ms=5, offset=0, is_repeat=is_repeat)

        verdict = judged(told)

        assert verdict.validity is Validity.VALID
        assert verdict.counts["after an unknown answer"] == 1


def test_a_number_stored_twice_is_noticed() -> None:
    twice = CareStory().numbered("m", 1, at_ms=1, offset=0).numbered("m", 1, at_ms=5, offset=0)
    moved = CareStory().numbered("m", 1, at_ms=1, offset=0)
    moved.numbered("m", 1, at_ms=5, offset=3, is_repeat=True)

    assert judged(twice).validity is Validity.INVALID
    assert judged(moved).counts["stored twice"] == 1


def test_a_copy_that_only_a_consumer_sees_is_noticed() -> None:
    told = CareStory().numbered("m", 1, at_ms=1, offset=None)
    told.numbered("m", 1, at_ms=5, offset=1)

    told.deliver(("m", 0), at_ms=9).deliver(("m", 1), at_ms=10)

    assert judged(told).counts["stored twice"] == 1


def test_a_first_that_is_called_a_repeat_is_noticed() -> None:
    told = CareStory().numbered("m", 1, at_ms=1, offset=0, is_repeat=True)

    assert judged(told).validity is Validity.INVALID


def test_the_same_number_of_two_producers_is_two_numbers() -> None:
    told = CareStory().numbered("m", 1, at_ms=1, offset=0)
    told.numbered("n", 1, at_ms=5, offset=1, producer="q")

    assert judged(told).validity is Validity.VALID


def test_two_messages_under_one_number_are_noticed() -> None:
    told = CareStory().numbered("m", 1, at_ms=1, offset=0).numbered("n", 1, at_ms=5, offset=1)

    assert judged(told).validity is Validity.INVALID


def test_a_number_sent_again_is_one_message_for_the_other_checkers() -> None:
    told = CareStory().numbered("m", 1, at_ms=1, offset=None)
    told.numbered("m", 1, at_ms=5, offset=0).deliver(("m", 0), at_ms=9)
    history = told.history()

    assert sends_of(history).repeated_ids == []
    assert sends_of(history).by_id["m"].offset == 0
    assert phantoms.check(history).validity is Validity.VALID
    assert offsets.check(history).validity is Validity.VALID


def test_without_numbers_nothing_is_known() -> None:
    assert judged(CareStory().send("m")).validity is Validity.UNKNOWN
