"""INV-9 by hand: letters that are missing, doubled, too early, changed, or sent again twice."""

import pytest

from tests.histories import deadletters
from tests.histories.building import GROUP
from tests.histories.care_building import CareStory
from tests.histories.events import Kind, Verb
from tests.histories.verdicts import Validity, Verdict

MAX = 2


def judged(told: CareStory) -> Verdict:
    """Return what INV-9 says."""
    verdict = deadletters.check(told.history())
    print(verdict)
    return verdict


def failed(times: int, *, last: str = "dead_letter") -> CareStory:
    """Send two messages and let the first fail so often."""
    told = CareStory().policy(MAX).send("m").send("n", at_ms=5, offset=1)
    for number in range(times):
        outcome = last if number == times - 1 else "retry"
        told.fail("m", 0, at_ms=10 * (number + 1), outcome=outcome)
    return told


def dead() -> CareStory:
    """Let it fail once more than it may."""
    return failed(MAX + 1)


def test_what_failed_once_more_than_it_may_is_a_dead_letter() -> None:
    verdict = judged(dead().letters(("m", MAX + 1, 0), at_ms=100))

    assert verdict.validity is Validity.VALID
    assert verdict.counts["letters"] == 1


def test_a_missing_letter_is_noticed() -> None:
    others = dead().letters(("n", MAX + 1, 1), at_ms=100)

    assert judged(others).counts["missing"] == 1


def test_a_reading_from_before_the_last_failure_need_not_show_it() -> None:
    told = dead().letters(("m", MAX + 1, 0), at_ms=100)
    told.fail("n", 1, at_ms=110, outcome="dead_letter", level=-1)

    assert judged(told).validity is Validity.VALID


def test_a_doubled_letter_is_noticed() -> None:
    told = dead().letters(("m", MAX + 1, 0), ("m", MAX + 1, 0), at_ms=100)

    assert judged(told).counts["doubled"] == 1


@pytest.mark.parametrize("failures", [MAX, MAX + 2, 0])
def test_a_letter_that_died_of_too_few_or_too_many_is_noticed(failures: int) -> None:
    assert judged(dead().letters(("m", failures, 0), at_ms=100)).validity is Validity.INVALID


def test_straight_to_the_dead_letters_needs_one_failure_only() -> None:
    told = CareStory().policy(MAX).send("m").fail("m", 0, at_ms=10, level=-1)
    kept = told.letters(("m", 1, 0), at_ms=100)
    lost = CareStory().policy(MAX).send("m").send("n", at_ms=5, offset=1)
    lost.fail("m", 0, at_ms=10, level=-1).fail("n", 1, at_ms=20, level=-1)

    assert judged(kept).validity is Validity.VALID
    assert judged(lost.letters(("n", 1, 1), at_ms=100)).counts["missing"] == 1


def test_a_letter_from_nowhere_or_with_another_body_is_noticed() -> None:
    stranger = dead().letters(("m", MAX + 1, 0), ("x", MAX + 1, 1), at_ms=100)
    elsewhere = dead().letters(("m", MAX + 1, 9), at_ms=100)
    changed = dead()
    letters = [[0, "m", "another digest", MAX + 1, "orders", 0, 0]]
    changed.operate("run", Verb.LETTERS, (100, 101), {"group": GROUP}, letters=letters)

    assert judged(stranger).validity is Validity.INVALID
    assert judged(elsewhere).validity is Validity.INVALID
    assert judged(changed).validity is Validity.INVALID


def test_a_letter_that_was_acknowledged_is_noticed() -> None:
    told = dead().ack("m", at_ms=50).letters(("m", MAX + 1, 0), at_ms=100)

    assert judged(told).validity is Validity.INVALID


def test_a_letter_that_comes_again_by_itself_is_noticed() -> None:
    told = dead().letters(("m", MAX + 1, 0), at_ms=100).deliver(("m", 0), at_ms=9_000)

    assert judged(told).validity is Validity.INVALID


def test_a_letter_that_goes_is_noticed() -> None:
    told = dead().letters(("m", MAX + 1, 0), ("n", MAX + 1, 1), at_ms=100)

    assert judged(told.letters(("m", MAX + 1, 0), at_ms=200)).validity is Validity.INVALID


def test_a_lease_too_many_is_noticed() -> None:
    told = CareStory().policy(MAX).send("m").send("n", at_ms=5, offset=1)
    asked = {"group": GROUP, "client": "a", "topic": "orders", "queue": 0, "invisible_ms": 5}
    for number in range(MAX + 2):
        at_ms = 10 + 10 * number
        messages = [["m", 0, "digest of m"]]
        told.operate("a", Verb.DELIVER, (at_ms, at_ms + 1), {**asked, "messages": messages}, done=0)
    told.fail("n", 1, at_ms=80, outcome="dead_letter", level=-1)

    assert judged(told.letters(("n", 1, 1), at_ms=100)).validity is Validity.INVALID


def resent(*outcomes: str) -> CareStory:
    """Send a dead letter again, so often."""
    told = dead().letters(("m", MAX + 1, 0), at_ms=100)
    for number, outcome in enumerate(outcomes):
        told.resend(0, at_ms=200 + 10 * number, outcome=outcome)
    return told


def test_a_letter_sent_again_comes_again_once() -> None:
    told = resent("sent", "already").deliver(("m", 5), at_ms=300).progress(6, 6, at_ms=400)

    verdict = judged(told)

    assert verdict.validity is Validity.VALID
    assert (verdict.counts["resent sent"], verdict.counts["resent already"]) == (1, 1)


def test_a_letter_sent_again_twice_is_noticed() -> None:
    double = resent("sent", "sent").deliver(("m", 5), at_ms=300).progress(7, 7, at_ms=400)
    copied = resent("sent").deliver(("m", 5), at_ms=300).deliver(("m", 6), at_ms=310)

    assert judged(double).validity is Validity.INVALID
    assert judged(copied).validity is Validity.INVALID


def test_a_letter_sent_again_that_never_comes_is_noticed() -> None:
    assert judged(resent("sent")).validity is Validity.UNKNOWN
    assert judged(resent("sent").progress(6, 6, at_ms=400)).validity is Validity.INVALID


def test_a_letter_sent_again_may_die_again() -> None:
    told = resent("sent")
    for number in range(MAX + 1):
        told.fail("m", 5, at_ms=300 + 10 * number)
    told.letters(("m", MAX + 1, 0), ("m", MAX + 1, 0), at_ms=400).progress(6, 6, at_ms=500)

    assert judged(told).validity is Validity.VALID


def test_a_refused_or_unanswered_return_promises_nothing() -> None:
    told = failed(MAX + 1, last="retry").letters(("m", MAX + 1, 0), at_ms=100)
    asked = {"group": GROUP, "client": "a", "ids": ["n"], "level": -1}
    told.operate("a", Verb.BACK, (50, 51), asked, Kind.INFO, code="unanswered")

    assert judged(told).validity is Validity.VALID


def test_without_a_reading_or_a_limit_nothing_is_known() -> None:
    assert judged(dead()).validity is Validity.UNKNOWN
    unlimited = CareStory().send("m").letters(("m", 1, 0), at_ms=100)
    assert judged(unlimited).validity is Validity.UNKNOWN


def handed_out(times: int, fault: str, *, at_ms: float) -> CareStory:
    """Hand a message out so often, 10 ms apart and never settled, with a fault in between."""
    told = CareStory().policy(MAX).send("m").send("n", at_ms=5, offset=1)
    for number in range(times):
        told.lease("m", 0, at_ms=10 * (number + 1))
    told.fault(fault, "broker", at_ms=at_ms).start_broker(at_ms=at_ms + 1)
    told.fail("n", 1, at_ms=90, level=-1)
    return told.letters(("n", 1, 1), at_ms=100)


def test_what_a_power_cut_took_back_may_come_once_more_and_no_more_than_that() -> None:
    kept = handed_out(MAX + 1, "kill", at_ms=35)
    killed = handed_out(MAX + 2, "kill", at_ms=35)
    cut = handed_out(MAX + 2, "cut", at_ms=15)
    too_often = handed_out(MAX + 3, "cut", at_ms=15)

    assert judged(kept).validity is Validity.VALID
    assert judged(killed).validity is Validity.INVALID
    assert judged(cut).validity is Validity.VALID
    assert judged(too_often).validity is Validity.INVALID


def test_a_failure_that_was_answered_before_a_power_cut_counts() -> None:
    told = CareStory().policy(MAX).send("m")
    for number in range(MAX + 2):
        told.lease("m", 0, at_ms=10 * (number + 1), is_failed=True)
    told.fault("cut", "broker", at_ms=19).start_broker(at_ms=19.5)

    assert judged(told.letters(("m", MAX + 1, 0), at_ms=100)).validity is Validity.INVALID
