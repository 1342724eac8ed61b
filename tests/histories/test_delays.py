"""INV-7 by hand: what comes early, late, twice, never, or though it was cancelled."""

import pytest

from tests.histories import delays
from tests.histories.care_building import CareStory
from tests.histories.events import Kind, Verb
from tests.histories.verdicts import Validity, Verdict

HOUR_MS = 3_600_000.0


def judged(told: CareStory) -> Verdict:
    """Return what INV-7 says, a minute after all that happened."""
    verdict = delays.check(told.heal(at_ms=2 * HOUR_MS).history())
    print(verdict)
    return verdict


def delivered(at_ms: float, *, due_ms: float = 10_000) -> CareStory:
    """Send one message with a due time, and deliver it."""
    return CareStory().delay("m", due_ms=due_ms).deliver(("m", 0), at_ms=at_ms)


def test_what_comes_when_it_is_due_is_right() -> None:
    verdict = judged(delivered(10_040))

    assert verdict.validity is Validity.VALID
    assert verdict.counts["latest ms"] == pytest.approx(40)


@pytest.mark.parametrize("at_ms", [9_999, 5_000, 15_200])
def test_what_comes_too_early_or_too_late_is_noticed(at_ms: float) -> None:
    assert judged(delivered(at_ms)).validity is Validity.INVALID


def test_what_never_comes_is_lost() -> None:
    verdict = judged(CareStory().delay("m", due_ms=10_000))

    assert verdict.validity is Validity.INVALID
    assert verdict.counts["lost"] == 1


def test_what_is_not_due_yet_is_not_lost() -> None:
    told = CareStory().delay("m", due_ms=4 * HOUR_MS)

    assert judged(told).validity is Validity.UNKNOWN


def test_what_comes_twice_is_noticed_and_a_second_delivery_of_the_same_is_not() -> None:
    again = delivered(10_010).deliver(("m", 0), at_ms=10_500)
    twice = delivered(10_010).deliver(("m", 1), at_ms=10_500)

    assert judged(again).validity is Validity.VALID
    assert judged(twice).counts["delivered twice"] == 1


def test_a_retry_of_a_delayed_message_is_not_the_message_twice() -> None:
    told = delivered(10_010).deliver(("m", 3), at_ms=10_500)
    retried = [
        event._replace(values={**event.values, "topic": "%RETRY%fulfil"})
        if event.values.get("messages") == [["m", 3, "digest of m"]]
        else event
        for event in told._events
    ]
    told._events[:] = retried

    assert judged(told).validity is Validity.VALID


def test_a_clock_set_forward_makes_nothing_due() -> None:
    early = CareStory().delay("m", due_ms=10_000).jump(HOUR_MS, at_ms=2_000)
    right = CareStory().delay("m", due_ms=10_000).jump(HOUR_MS, at_ms=2_000)
    early.deliver(("m", 0), at_ms=2_100)
    right.deliver(("m", 0), at_ms=10_100)

    assert judged(early).counts["early"] == 1
    assert judged(right).validity is Validity.VALID


def test_a_clock_set_back_lets_it_wait() -> None:
    early = CareStory().delay("m", due_ms=10_000).jump(-60_000, at_ms=2_000)
    early.deliver(("m", 0), at_ms=10_100)

    assert judged(early).counts["early"] == 1


def test_while_the_broker_is_away_nothing_is_late() -> None:
    told = CareStory().delay("m", due_ms=10_000).fault("kill", "broker", at_ms=5_000)
    told.start_broker(at_ms=60_000)

    assert judged(told.deliver(("m", 0), at_ms=64_000)).validity is Validity.VALID


def test_after_the_broker_is_back_it_must_come() -> None:
    told = CareStory().delay("m", due_ms=10_000).fault("kill", "broker", at_ms=5_000)
    told.start_broker(at_ms=60_000)

    assert judged(told.deliver(("m", 0), at_ms=66_000)).counts["late"] == 1


def test_an_outage_after_its_time_excuses_nothing() -> None:
    told = CareStory().delay("m", due_ms=10_000).fault("kill", "broker", at_ms=50_000)
    told.start_broker(at_ms=60_000)

    assert judged(told.deliver(("m", 0), at_ms=61_000)).counts["late"] == 1


def test_a_cancelled_message_that_comes_is_noticed() -> None:
    calm = CareStory().delay("m", due_ms=10_000).recall("m", "cancelled", at_ms=5_000)
    broken = delivered(10_010).recall("m", "cancelled", at_ms=5_000)

    assert judged(calm).validity is Validity.VALID
    assert judged(calm).counts["cancelled"] == 1
    assert judged(broken).validity is Validity.INVALID


def test_a_recall_that_came_too_late_says_so_and_only_then() -> None:
    honest = delivered(10_010).recall("m", "delivered", at_ms=11_000)
    early = delivered(10_010).recall("m", "delivered", at_ms=5_000)
    both = CareStory().delay("m", due_ms=10_000).recall("m", "cancelled", at_ms=5_000)

    assert judged(honest).validity is Validity.VALID
    assert judged(early).validity is Validity.INVALID
    assert judged(both.recall("m", "delivered", at_ms=20_000)).validity is Validity.INVALID


def test_calling_an_accepted_message_unknown_is_noticed() -> None:
    told = delivered(10_010).recall("m", "unknown", at_ms=5_000)

    assert judged(told).validity is Validity.INVALID


def test_after_a_recall_without_an_answer_either_is_right() -> None:
    came = delivered(10_010).recall("m", "", at_ms=5_000)
    never = CareStory().delay("m", due_ms=10_000).recall("m", "", at_ms=5_000)

    assert judged(came).validity is Validity.VALID
    assert judged(never).validity is Validity.VALID


def test_what_somebody_wanted_at_once_may_come_before_its_time() -> None:
    told = CareStory().delay("m", due_ms=HOUR_MS)
    told.recall("m", "delivered", at_ms=5_000, verb=Verb.HASTEN).deliver(("m", 0), at_ms=5_010)
    before = CareStory().delay("m", due_ms=HOUR_MS).deliver(("m", 0), at_ms=4_990)
    before.recall("m", "delivered", at_ms=5_000, verb=Verb.HASTEN)

    assert judged(told).validity is Validity.VALID
    assert judged(told).counts["sent before its time"] == 1
    assert judged(before).counts["early"] == 1


def test_what_was_sent_at_once_and_never_came_is_lost() -> None:
    told = CareStory().delay("m", due_ms=HOUR_MS * 4)
    told.recall("m", "delivered", at_ms=5_000, verb=Verb.HASTEN)

    assert judged(told).counts["lost"] == 1


def test_a_delay_without_an_answer_promises_nothing() -> None:
    told = CareStory().delay("m", due_ms=10_000, kind=Kind.INFO)

    assert judged(told).validity is Validity.VALID


def test_a_delay_without_an_answer_is_not_early_either() -> None:
    told = CareStory().delay("m", due_ms=10_000, kind=Kind.INFO).deliver(("m", 0), at_ms=100)

    assert judged(told).counts["early"] == 1


def test_nothing_delayed_shows_nothing() -> None:
    assert judged(CareStory()).validity is Validity.UNKNOWN
