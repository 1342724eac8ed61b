"""INV-13 and the run itself by hand: a run that stands still, or shows nothing, is not green."""

import pytest

from tests.histories import health, judge, liveness
from tests.histories.building import Story
from tests.histories.events import Kind, Verb
from tests.histories.verdicts import Validity, Verdict, are_valid


def behind() -> Story:
    """Three messages, one of them done, and a healed fault."""
    told = Story().lock(1, at_ms=0, lease_ms=600_000)
    for offset in range(3):
        told.send(f"m{offset}", at_ms=1 + 2 * offset, offset=offset)
    told.deliver(("m0", 0), at_ms=100).fault("pause", "b", at_ms=200)
    return told.heal(at_ms=1_000).progress(0, 3, at_ms=1_001)


def judged(told: Story) -> Verdict:
    """Return what INV-13 says."""
    verdict = liveness.check(told.history())
    print(verdict)
    return verdict


def test_a_queue_that_moves_on_and_drains_lives() -> None:
    told = behind().deliver(("m1", 1), at_ms=2_000).deliver(("m2", 2), at_ms=3_000)

    verdict = judged(told.progress(3, 3, at_ms=4_000))

    assert verdict.validity is Validity.VALID
    assert verdict.counts["queues behind at heal"] == 1
    assert verdict.counts["slowest drain s"] == pytest.approx(3.001)


def test_a_queue_that_stands_still_is_noticed() -> None:
    assert judged(behind().progress(0, 3, at_ms=90_000)).violation_count == 2


def test_a_queue_that_moves_on_too_late_is_noticed() -> None:
    told = behind().deliver(("m1", 1), at_ms=40_000).progress(3, 3, at_ms=41_000)

    assert judged(told).validity is Validity.INVALID


def test_a_group_that_drains_too_late_is_noticed() -> None:
    told = behind().deliver(("m1", 1), at_ms=2_000).progress(3, 3, at_ms=122_000)

    assert judged(told).validity is Validity.INVALID


def test_an_operation_that_never_ends_is_noticed_unless_its_process_ended() -> None:
    asked = {"group": "fulfil", "client": "c", "offsets": []}
    living = behind().operate("c", Verb.COMMIT, (1_000, None), asked).progress(3, 3, at_ms=70_000)
    ended = behind().operate("c", Verb.COMMIT, (1_000, None), asked).progress(3, 3, at_ms=4_000)
    ended.fault("kill", "c", at_ms=3_000).progress(3, 3, at_ms=70_000)

    assert judged(living).validity is Validity.INVALID
    assert judged(ended).validity is Validity.VALID


def test_without_a_heal_or_a_reading_nothing_is_known() -> None:
    assert judged(Story().send("m0")).validity is Validity.UNKNOWN
    assert judged(Story().send("m0").heal(at_ms=10)).validity is Validity.UNKNOWN


def judged_run(told: Story) -> Verdict:
    """Return what is said of the run."""
    verdict = health.check(told.history())
    print(verdict)
    return verdict


def test_a_run_with_faults_that_mostly_works_shows_something() -> None:
    assert judged_run(behind()).validity is Validity.VALID


def test_a_run_without_a_fault_shows_nothing_where_one_was_wanted() -> None:
    calm = Story().send("m0").fault("resume", "a", at_ms=5).heal(at_ms=10)

    assert judged_run(calm).validity is Validity.INVALID
    assert health.check(calm.history(), is_disturbed=False).validity is Validity.VALID


@pytest.mark.parametrize(("failed", "expected"), [(2, Validity.VALID), (3, Validity.INVALID)])
def test_a_run_that_mostly_fails_shows_nothing(failed: int, expected: Validity) -> None:
    told = Story().fault("kill", "a", at_ms=5).send("m0").send("m1", at_ms=9, offset=1)
    for number in range(failed):
        told.send(f"lost{number}", at_ms=20 + number, kind=Kind.INFO)

    assert judged_run(told).validity is expected


def test_a_failure_that_nobody_expects_is_not_passed_over() -> None:
    told = behind().deliver(("m1", 1), at_ms=2_000).commit(2, at_ms=2_100, code="invalid_name")

    assert judged_run(told).validity is Validity.INVALID


def test_an_empty_history_shows_nothing() -> None:
    verdicts = judge.judged(Story().history())

    assert not are_valid(verdicts)
    assert Validity.VALID not in {verdict.validity for verdict in verdicts}


def test_what_never_happened_is_named() -> None:
    verdict = health.sometimes({"redelivery", "take-over"}, {"take-over": 2, "redelivery": 0})

    assert verdict.validity is Validity.INVALID
    assert verdict.evidence == ("never happened: redelivery",)
    assert health.sometimes({"take-over"}, {"take-over": 2}).validity is Validity.VALID


def test_a_verdict_keeps_the_first_violations_and_counts_all() -> None:
    told = behind()
    for number in range(50):
        told.commit(7, at_ms=2_000 + number, code=f"code{number}")

    verdict = judged_run(told)

    assert len(verdict.evidence) < 50 <= verdict.violation_count
    assert str(verdict).count("\n") == len(verdict.evidence)
