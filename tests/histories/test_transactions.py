"""INV-8 by hand: what is seen without a commit, committed and unseen, or decided twice."""

import pytest

from tests.histories import transactions
from tests.histories.building import GROUP
from tests.histories.care_building import CareStory
from tests.histories.events import Kind, Verb
from tests.histories.verdicts import Validity, Verdict


def judged(told: CareStory) -> Verdict:
    """Return what INV-8 says."""
    verdict = transactions.check(told.history())
    print(verdict)
    return verdict


def committed() -> CareStory:
    """Begin and commit one."""
    return CareStory().begin("m").end("m", at_ms=10, offset=0)


def drained(told: CareStory) -> CareStory:
    """Say that the group has done everything."""
    return told.progress(1, 1, at_ms=500)


def test_a_committed_message_comes() -> None:
    verdict = judged(drained(committed().deliver(("m", 0), at_ms=20)))

    assert verdict.validity is Validity.VALID
    assert (verdict.counts["committed"], verdict.counts["seen"]) == (1, 1)


def test_a_committed_message_that_never_comes_is_lost() -> None:
    assert judged(committed()).validity is Validity.UNKNOWN
    assert judged(drained(committed())).counts["lost"] == 1


def test_a_reading_from_before_the_commit_shows_nothing() -> None:
    told = CareStory().begin("m").progress(1, 1, at_ms=5).end("m", at_ms=10, offset=0)

    assert judged(told).validity is Validity.UNKNOWN


def test_what_nobody_committed_must_not_come() -> None:
    pending = CareStory().begin("m").deliver(("m", 0), at_ms=20)
    early = CareStory().begin("m").deliver(("m", 0), at_ms=5).end("m", at_ms=10, offset=0)
    back = CareStory().begin("m").end("m", "rolled_back", at_ms=10).deliver(("m", 0), at_ms=20)
    refused = CareStory().begin("m").end("m", at_ms=10, kind=Kind.FAIL)

    assert judged(pending).validity is Validity.INVALID
    assert judged(early).validity is Validity.INVALID
    assert judged(back).validity is Validity.INVALID
    assert judged(refused.deliver(("m", 0), at_ms=20)).validity is Validity.INVALID


def test_a_rolled_back_message_does_not_come() -> None:
    told = CareStory().begin("m").end("m", "rolled_back", at_ms=10)

    assert judged(drained(told)).validity is Validity.VALID


def test_after_a_commit_without_an_answer_either_is_right() -> None:
    told = CareStory().begin("m").end("m", at_ms=10, kind=Kind.INFO)
    came = CareStory().begin("m").end("m", at_ms=10, kind=Kind.INFO)
    came.deliver(("m", 0), at_ms=20).end("m", at_ms=30, offset=0, is_repeat=True)

    assert judged(drained(told)).validity is Validity.VALID
    assert judged(drained(came)).validity is Validity.VALID


def test_two_decisions_are_noticed() -> None:
    both = committed().end("m", "rolled_back", at_ms=20)
    twice = committed().end("m", at_ms=20, offset=0)

    assert judged(both).validity is Validity.INVALID
    assert judged(twice).validity is Validity.INVALID


def test_an_old_answer_that_is_refused_or_a_repeat_is_right() -> None:
    told = committed().deliver(("m", 0), at_ms=15).end("m", at_ms=20, offset=0, is_repeat=True)
    told.end("m", "rolled_back", at_ms=30, kind=Kind.FAIL)

    verdict = judged(drained(told))

    assert verdict.validity is Validity.VALID
    assert (verdict.counts["repeats"], verdict.counts["refused"]) == (1, 1)


def test_a_repeat_that_stores_it_elsewhere_is_noticed() -> None:
    told = committed().end("m", at_ms=20, offset=7, is_repeat=True)
    seen = committed().deliver(("m", 0), at_ms=15).deliver(("m", 7), at_ms=25)

    assert judged(told).validity is Validity.INVALID
    assert judged(seen).validity is Validity.INVALID


def test_a_refusal_without_another_decision_is_noticed() -> None:
    told = CareStory().begin("m").end("m", at_ms=10, kind=Kind.FAIL)

    assert judged(told).validity is Validity.INVALID


def test_checks_are_counted_up_to_their_limit() -> None:
    told = CareStory().begin("m").check("m", 1, at_ms=10).check("m", 2, at_ms=20, checks_max=2)
    beyond = CareStory().begin("m").check("m", 3, at_ms=10, checks_max=2)
    twice = CareStory().begin("m").check("m", 1, at_ms=10).check("m", 1, at_ms=20)

    assert judged(told).counts["checks"] == 2
    assert judged(told).validity is Validity.VALID
    assert judged(beyond).validity is Validity.INVALID
    assert judged(twice).validity is Validity.INVALID


def test_a_check_of_what_is_decided_is_noticed_unless_it_was_on_its_way() -> None:
    late = drained(committed().deliver(("m", 0), at_ms=15).check("m", 1, at_ms=20))
    meanwhile = drained(committed().deliver(("m", 0), at_ms=15).check("m", 1, at_ms=10.5))

    assert judged(late).validity is Validity.INVALID
    assert judged(meanwhile).validity is Validity.VALID


def test_a_check_of_what_nobody_began_is_noticed() -> None:
    told = CareStory().begin("m").check("other", 1, at_ms=10)

    assert judged(told).validity is Validity.INVALID


def test_what_is_given_up_is_neither_seen_nor_decided() -> None:
    told = CareStory().begin("m").notice(100, Verb.GIVEN_UP, id="m")
    seen = CareStory().begin("m").notice(100, Verb.GIVEN_UP, id="m").deliver(("m", 0), at_ms=200)
    late = CareStory().begin("m").notice(100, Verb.GIVEN_UP, id="m").end("m", at_ms=200, offset=0)

    assert judged(told).validity is Validity.VALID
    assert judged(told).counts["given up"] == 1
    assert judged(seen).validity is Validity.INVALID
    assert judged(late).validity is Validity.INVALID


@pytest.mark.parametrize("topic", sorted(transactions.HIDDEN_TOPICS))
def test_reading_half_messages_is_noticed(topic: str) -> None:
    told = CareStory().begin("m")
    asked = {"group": GROUP, "client": "a", "topic": topic, "queue": 0}
    messages = [["m", 0, "digest of m"]]
    told.operate("a", Verb.DELIVER, (10, 11), {**asked, "messages": messages}, done=1)

    assert judged(told).validity is Validity.INVALID


def test_nothing_begun_shows_nothing() -> None:
    assert judged(CareStory()).validity is Validity.UNKNOWN
