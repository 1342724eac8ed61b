"""INV-5 by hand: each repetition needs its reason, and what is settled stays away."""

from collections.abc import Callable

import pytest

from tests.histories import duplicates
from tests.histories.building import GROUP, TOPIC, Story
from tests.histories.events import Kind, Verb
from tests.histories.verdicts import Validity, Verdict


def judged(told: Story) -> Verdict:
    """Return what the checker says."""
    verdict = duplicates.check(told.history())
    print(verdict)
    return verdict


def twice(between: Callable[[Story], object], *, client: str = "b", done: int = 1) -> Story:
    """A message is given to one client, something happens, and it is given to a client again."""
    told = Story().send("m0", at_ms=1)
    told.deliver(("m0", 0), at_ms=10_000, done=done)
    between(told)
    return told.deliver(("m0", 0), at_ms=20_000, client=client)


def test_once_is_what_is_expected() -> None:
    verdict = judged(Story().send("m0", at_ms=1).deliver(("m0", 0), at_ms=10))

    assert verdict.validity is Validity.VALID
    assert verdict.counts["delivered 1 x"] == 1
    assert verdict.counts["repetitions"] == 0


@pytest.mark.parametrize("client", ["a", "b"])
def test_a_repetition_without_a_reason_is_noticed(client: str) -> None:
    assert judged(twice(lambda told: None, client=client)).validity is Validity.INVALID


ASKED = {"group": GROUP, "client": "a"}
PULL = {**ASKED, "topic": TOPIC, "queue": 0, "offset": 1, "epoch": 1}
REASONS = {
    "a client's end": lambda told: told.fault("kill", "a", at_ms=15_000),
    "a client's pause": lambda told: told.fault("pause", "a", at_ms=15_000),
    "the broker's end": lambda told: told.fault("kill", "broker", at_ms=15_000),
    "a rebalance": lambda told: told.assign(0, at_ms=15_000, client="b"),
    "an unknown answer": lambda told: told.operate(
        "a", Verb.COMMIT, (15_000, 15_001), {**ASKED, "offsets": []}, Kind.INFO, code="unanswered"
    ),
    "a lost lock": lambda told: told.operate(
        "a", Verb.PULL, (15_000, 15_001), PULL, Kind.FAIL, code="lock_lost"
    ),
    "a reset": lambda told: told.notice(
        15_000, Verb.RESET, group=GROUP, topic=TOPIC, queue=0, offset=0
    ),
    "retry": lambda told: told.operate("a", Verb.NACK, (15_000, 15_001), {**ASKED, "ids": ["m0"]}),
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_repetition_with_a_reason_is_counted_under_it(reason: str) -> None:
    verdict = judged(twice(REASONS[reason]))

    assert verdict.validity is Validity.VALID
    assert verdict.counts[f"after {reason}"] == 1
    assert verdict.counts["delivered 2 x"] == 1


def test_a_listener_that_failed_is_called_again() -> None:
    verdict = judged(twice(lambda told: None, client="a", done=0))

    assert verdict.validity is Validity.VALID
    assert verdict.counts["after retry"] == 1


@pytest.mark.parametrize(("epoch", "expected"), [(1, Validity.INVALID), (2, Validity.VALID)])
def test_a_lock_under_another_epoch_is_one_that_was_lost(epoch: int, expected: Validity) -> None:
    told = Story().send("m0", at_ms=1).lock(1, at_ms=9_000).deliver(("m0", 0), at_ms=10_000)
    told.lock(epoch, at_ms=15_000).deliver(("m0", 0), at_ms=20_000)

    assert judged(told).validity is expected


def test_each_repetition_needs_a_reason_of_its_own() -> None:
    told = twice(REASONS["a client's end"]).deliver(("m0", 0), at_ms=30_000, client="c")

    verdict = judged(told)

    assert verdict.validity is Validity.INVALID
    assert verdict.violation_count == 1


def test_what_happened_to_somebody_else_is_no_reason() -> None:
    assert judged(twice(lambda t: t.fault("kill", "c", at_ms=15_000))).validity is Validity.INVALID
    assert judged(twice(lambda t: t.fault("pause", "c", at_ms=1))).validity is Validity.INVALID


def test_what_happened_long_before_is_no_reason() -> None:
    told = twice(lambda told: told.assign(0, at_ms=5_000, client="b"))

    assert judged(told).validity is Validity.INVALID


def test_what_is_committed_does_not_come_again() -> None:
    told = twice(lambda t: t.commit(1, at_ms=11_000).fault("kill", "a", at_ms=15_000))

    assert judged(told).validity is Validity.INVALID


def test_what_was_acknowledged_does_not_come_again() -> None:
    told = twice(
        lambda t: t.operate("a", Verb.ACK, (11_000, 11_001), {**ASKED, "ids": ["m0"]}).fault(
            "kill", "a", at_ms=15_000
        )
    )

    assert judged(told).validity is Validity.INVALID


def test_a_client_that_stood_still_does_not_know_that_a_message_is_settled() -> None:
    told = Story().send("m0", at_ms=1).deliver(("m0", 0), at_ms=10, client="b")
    told.commit(1, at_ms=20, client="b").fault("pause", "a", at_ms=5)
    told.fault("pause", "b", at_ms=30).fault("resume", "a", at_ms=9_999)

    assert judged(told.deliver(("m0", 0), at_ms=10_000)).validity is Validity.VALID


@pytest.mark.parametrize(
    ("invisible_ms", "expected"), [(9_999, Validity.VALID), (10_001, Validity.INVALID)]
)
def test_a_lease_of_messages_that_is_over_is_a_reason(
    invisible_ms: int, expected: Validity
) -> None:
    told = Story(is_ordered=False).send("m0", at_ms=1)
    asked = {**ASKED, "topic": TOPIC, "queue": 0, "messages": [["m0", 0, "digest of m0"]]}
    told.operate(
        "a", Verb.DELIVER, (10_000, 10_001), {**asked, "invisible_ms": invisible_ms}, done=1
    )

    assert judged(told.deliver(("m0", 0), at_ms=20_000, client="b")).validity is expected


def test_groups_do_not_share_deliveries() -> None:
    told = Story().send("m0", at_ms=1).deliver(("m0", 0), at_ms=10_000)
    other = {"group": "other", "client": "x", "topic": TOPIC, "queue": 0}
    messages = [["m0", 0, "digest of m0"]]
    told.operate("x", Verb.DELIVER, (20_000, 20_001), {**other, "messages": messages}, done=1)

    assert judged(told).validity is Validity.VALID


def test_the_move_of_another_queue_is_no_reason() -> None:
    told = twice(lambda told: told.assign(1, at_ms=15_000, client="b"))

    assert judged(told).validity is Validity.INVALID


def test_an_assignment_that_moves_nothing_is_no_reason() -> None:
    told = Story().assign(0, at_ms=100).send("m0", at_ms=1).deliver(("m0", 0), at_ms=10_000)
    told.assign(0, at_ms=15_000, generation=2).deliver(("m0", 0), at_ms=20_000)

    assert judged(told).validity is Validity.INVALID


@pytest.mark.parametrize(
    ("resume_ms", "expected"), [(9_500, Validity.VALID), (6_000, Validity.INVALID)]
)
def test_while_the_broker_stands_still_nobody_learns_of_a_move(
    resume_ms: int, expected: Validity
) -> None:
    told = Story().send("m0", at_ms=1).deliver(("m0", 0), at_ms=4_000, client="b")
    told.commit(1, at_ms=4_600, client="b").assign(0, at_ms=4_500, client="a")
    told.fault("pause", "broker", at_ms=5_000).fault("resume", "broker", at_ms=resume_ms)

    assert judged(told.deliver(("m0", 0), at_ms=10_000)).validity is expected
