"""Lent messages by hand: one borrower a queue, and a dead one's messages come again in time."""

import pytest

from tests.histories import leased
from tests.histories.building import GROUP, TOPIC, Story
from tests.histories.events import Kind, Verb
from tests.histories.verdicts import Validity, Verdict

LEASE_MS = 1_000


def lend(
    told: Story, id_: str, *, at_ms: float, client: str, lease_ms: int | None = LEASE_MS
) -> Story:
    """Give the first message of a queue to a listener that does not return."""
    asked = {"group": GROUP, "client": client, "topic": TOPIC, "queue": 0}
    lease = {} if lease_ms is None else {"invisible_ms": lease_ms}
    given = [[id_, int(id_[1:]), f"digest of {id_}"]]
    return told.operate(client, Verb.DELIVER, (at_ms, None), {**asked, "messages": given, **lease})


def ack(told: Story, id_: str, *, at_ms: float, client: str, kind: Kind = Kind.OK) -> Story:
    asked = {"group": GROUP, "client": client, "ids": [id_]}
    return told.operate(client, Verb.ACK, (at_ms, at_ms + 1), asked, kind)


def judged(told: Story) -> Verdict:
    verdict = leased.check(told.history(), back_s=5.0)
    print(verdict)
    return verdict


def killed(again_ms: float | None, *, lease_ms: int | None = LEASE_MS) -> Story:
    """A client is killed while it holds a message, and somebody has it later, or nobody."""
    told = lend(Story(), "m0", at_ms=100, client="a", lease_ms=lease_ms)
    told.fault("kill", "a", at_ms=300)
    if again_ms is not None:
        lend(told, "m0", at_ms=again_ms, client="b")
    return told


@pytest.mark.parametrize("again_ms", [1_100, 6_000])
def test_what_comes_again_in_time_is_well(again_ms: float) -> None:
    verdict = judged(killed(again_ms))

    assert verdict.validity is Validity.VALID
    assert (verdict.counts["held by the killed"], verdict.counts["came again"]) == (1, 1)


@pytest.mark.parametrize(
    ("again_ms", "said"),
    [(1_099, "before its time"), (6_101, "after its time"), (None, "never came again")],
)
def test_early_late_and_never_are_noticed(again_ms: float | None, said: str) -> None:
    verdict = judged(killed(again_ms))

    assert verdict.validity is Validity.INVALID
    assert any(said in line for line in verdict.evidence)


@pytest.mark.parametrize(("again_ms", "is_fine"), [(5_200, True), (5_400, False)])
def test_without_a_time_of_its_own_it_is_counted_from_the_clients_end(
    again_ms: float, is_fine: bool
) -> None:
    assert (judged(killed(again_ms, lease_ms=None)).validity is Validity.VALID) == is_fine


def test_what_a_killed_client_may_have_settled_need_not_come_again() -> None:
    told = lend(Story(), "m0", at_ms=100, client="a")
    ack(told, "m0", at_ms=200, client="a", kind=Kind.INFO).fault("kill", "a", at_ms=300)

    assert judged(told).validity is Validity.UNKNOWN


def test_two_borrowers_of_a_queue_in_order_are_noticed() -> None:
    told = killed(2_000)
    lend(told, "m1", at_ms=2_500, client="c")

    assert judged(told).validity is Validity.INVALID


def test_who_comes_after_an_acknowledgement_borrows_alone() -> None:
    told = ack(killed(2_000), "m0", at_ms=2_400, client="b")
    lend(told, "m1", at_ms=2_500, client="c")

    assert judged(told).validity is Validity.VALID


def test_an_acknowledgement_that_was_refused_ends_no_loan() -> None:
    told = ack(killed(2_000), "m0", at_ms=2_400, client="b", kind=Kind.FAIL)
    lend(told, "m1", at_ms=2_500, client="c")

    assert judged(told).validity is Validity.INVALID


def test_out_of_order_many_borrow_at_once() -> None:
    told = lend(Story(is_ordered=False), "m0", at_ms=100, client="a")
    lend(told, "m1", at_ms=110, client="b").fault("kill", "a", at_ms=300)
    lend(told, "m0", at_ms=1_200, client="c")

    assert judged(told).validity is Validity.VALID


def test_a_broker_that_ended_may_have_forgotten_a_loan() -> None:
    told = lend(Story(), "m0", at_ms=100, client="a").fault("kill", "broker", at_ms=300)
    told.start_broker(at_ms=400)
    lend(told, "m0", at_ms=500, client="b").fault("kill", "a", at_ms=600)
    told.fault("kill", "b", at_ms=700)
    lend(told, "m0", at_ms=1_600, client="c")

    assert judged(told).validity is Validity.VALID
