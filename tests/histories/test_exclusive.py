"""INV-6 by hand: overlaps, leases, epochs and fences."""

import pytest

from tests.histories import exclusive, takeover
from tests.histories.building import GROUP, LEASE_MS, TOPIC, Story
from tests.histories.events import Verb
from tests.histories.verdicts import Validity, Verdict


def judged(told: Story) -> Verdict:
    """Return what the checker says."""
    verdict = exclusive.check(told.history())
    print(verdict)
    return verdict


def found(told: Story) -> Validity:
    """Return whether it is right."""
    return judged(told).validity


def taken_over(*, heir_ms: float) -> Story:
    """A client holds a queue until 1,000 ms; another is granted it at a moment."""
    told = Story().lock(1, at_ms=0).deliver(("m0", 0), at_ms=10)
    return told.lock(2, at_ms=heir_ms, client="b")


def test_a_queue_handed_on_after_its_lease_is_exclusive() -> None:
    told = taken_over(heir_ms=LEASE_MS).deliver(("m1", 1), at_ms=LEASE_MS + 10, client="b")

    verdict = judged(told)

    assert verdict.validity is Validity.VALID
    assert verdict.counts["take-overs"] == 1


def test_a_lock_is_not_granted_while_anothers_lease_runs() -> None:
    assert found(taken_over(heir_ms=LEASE_MS - 2)) is Validity.INVALID


def test_a_renewal_moves_the_end_of_the_lease() -> None:
    told = Story().lock(1, at_ms=0).lock(1, at_ms=500).deliver(("m0", 0), at_ms=510)

    assert found(told.lock(2, at_ms=LEASE_MS + 10, client="b")) is Validity.INVALID


@pytest.mark.parametrize("verb", [Verb.UNLOCK, Verb.LEAVE])
def test_a_lock_that_was_given_back_is_free_at_once(verb: Verb) -> None:
    told = Story().lock(1, at_ms=0).deliver(("m0", 0), at_ms=10)
    asked = {"group": GROUP, "client": "a", "queues": [[TOPIC, 0]]}
    told.operate("a", verb, (20, 21), asked)
    told.lock(2, at_ms=22, client="b").deliver(("m1", 1), at_ms=30, client="b")

    assert found(told) is Validity.VALID


def test_two_clients_at_once_are_an_overlap() -> None:
    told = Story().lock(1, at_ms=0).deliver(("m0", 0), at_ms=10, took_ms=100)
    told.unlock(at_ms=15).lock(2, at_ms=20, client="b")

    verdict = judged(told.deliver(("m1", 1), at_ms=30, client="b"))

    assert verdict.validity is Validity.INVALID
    assert verdict.counts["overlaps"] == 1


def test_one_client_twice_at_once_is_an_overlap_too() -> None:
    told = Story().lock(1, at_ms=0).deliver(("m0", 0), at_ms=10, took_ms=100)

    assert found(told.deliver(("m1", 1), at_ms=50)) is Validity.INVALID


def test_different_queues_run_side_by_side() -> None:
    told = Story().lock(1, at_ms=0).lock(2, at_ms=0, queue=1)
    told.deliver(("m0", 0), at_ms=10, took_ms=100).deliver(("m1", 0), at_ms=20, queue=1)

    assert found(told) is Validity.VALID


def test_a_long_listener_is_protected_by_renewals() -> None:
    told = Story().lock(1, at_ms=0).deliver(("m0", 0), at_ms=10, took_ms=3 * LEASE_MS)
    for renewal in range(1, 4):
        told.lock(1, at_ms=renewal * 800)
    early = told.lock(2, at_ms=2_500, client="b").deliver(("m0", 0), at_ms=2_600, client="b")

    verdict = judged(early)

    assert verdict.validity is Validity.INVALID
    assert verdict.counts["overlaps"] == 1


def test_a_listener_that_outlives_its_lease_does_not_hold_up_the_heir() -> None:
    told = Story().lock(1, at_ms=0).deliver(("m0", 0), at_ms=10, took_ms=3 * LEASE_MS)
    told.lock(2, at_ms=LEASE_MS + 1, client="b")

    assert found(told.deliver(("m0", 0), at_ms=LEASE_MS + 10, client="b")) is Validity.VALID


def test_a_killed_listener_is_over_when_its_process_is() -> None:
    told = Story().lock(1, at_ms=0).deliver(("m0", 0), at_ms=10, took_ms=None)
    told.fault("kill", "a", at_ms=20).lock(2, at_ms=LEASE_MS, client="b")

    assert found(told.deliver(("m0", 0), at_ms=LEASE_MS + 5, client="b")) is Validity.VALID


def test_a_delivery_needs_a_lock() -> None:
    assert found(Story().deliver(("m0", 0), at_ms=10)) is Validity.INVALID


def test_a_lock_whose_answer_has_not_come_is_none() -> None:
    told = Story().lock(1, at_ms=0, took_ms=50).deliver(("m0", 0), at_ms=10)

    assert found(told) is Validity.INVALID


def test_a_delivery_begun_after_the_lease_needs_a_client_that_stood_still() -> None:
    late = Story().lock(1, at_ms=0).deliver(("m0", 0), at_ms=LEASE_MS + 10)
    paused = Story().lock(1, at_ms=0).fault("pause", "a", at_ms=5)
    paused.fault("resume", "a", at_ms=LEASE_MS + 9).deliver(("m0", 0), at_ms=LEASE_MS + 10)
    long_awake = Story().lock(1, at_ms=0).fault("pause", "a", at_ms=5)
    long_awake.fault("resume", "a", at_ms=20).deliver(("m0", 0), at_ms=LEASE_MS + 5_000)

    assert found(late) is Validity.INVALID
    assert found(paused) is Validity.VALID
    assert found(long_awake) is Validity.INVALID


def test_an_epoch_belongs_to_one_client() -> None:
    told = Story().lock(1, at_ms=0).unlock(at_ms=10).lock(1, at_ms=20, client="b")

    assert found(told.deliver(("m0", 0), at_ms=30, client="b")) is Validity.INVALID


def test_an_epoch_never_falls() -> None:
    told = Story().lock(5, at_ms=0).unlock(at_ms=10).lock(4, at_ms=20, client="b")

    assert found(told.deliver(("m0", 0), at_ms=30, client="b")) is Validity.INVALID


@pytest.mark.parametrize(
    ("client", "epoch", "expected"),
    [
        ("a", 1, Validity.VALID),
        ("a", 2, Validity.VALID),
        ("b", 2, Validity.VALID),
        ("a", 0, Validity.INVALID),
        ("b", 1, Validity.INVALID),
        ("b", 0, Validity.INVALID),
    ],
)
def test_what_is_granted_anew_after_a_restart_has_a_higher_epoch(
    client: str, epoch: int, expected: Validity
) -> None:
    told = Story().lock(1, at_ms=0, lease_ms=30).deliver(("m0", 0), at_ms=10)
    told.fault("kill", "broker", at_ms=20).start_broker(at_ms=40)
    told.lock(epoch, at_ms=50, client=client)

    verdict = judged(told.deliver(("m1", 1), at_ms=60, client=client))

    is_kept = (client, epoch) == ("a", 1)
    assert verdict.validity is expected
    assert verdict.counts["kept over a restart" if is_kept else "granted after a restart"] == 1


def test_a_stale_epoch_is_refused_at_a_commit() -> None:
    accepted = taken_over(heir_ms=LEASE_MS).commit(1, at_ms=LEASE_MS + 10, epoch=1)
    refused = taken_over(heir_ms=LEASE_MS)
    refused.commit(1, at_ms=LEASE_MS + 10, epoch=1, code="lock_lost")

    assert found(accepted) is Validity.INVALID
    assert found(refused) is Validity.VALID
    assert judged(refused).counts["stale_refused"] == 1


def test_a_commit_under_way_while_the_lock_changes_hands_may_be_either() -> None:
    assert found(taken_over(heir_ms=LEASE_MS).commit(1, at_ms=LEASE_MS, epoch=1)) is Validity.VALID


def test_a_commit_without_an_epoch_is_not_accepted() -> None:
    told = Story().lock(1, at_ms=0).deliver(("m0", 0), at_ms=10).commit(1, at_ms=20, epoch=None)

    assert found(told) is Validity.INVALID


def test_without_order_nothing_is_exclusive() -> None:
    told = Story(is_ordered=False).deliver(("m0", 0), at_ms=10, took_ms=100)

    assert found(told.deliver(("m0", 0), at_ms=20, client="b")) is Validity.UNKNOWN


@pytest.mark.parametrize("fault", ["kill", "pause"])
@pytest.mark.parametrize(
    ("heir_ms", "expected"), [(2_900, Validity.VALID), (3_100, Validity.INVALID)]
)
def test_a_take_over_is_in_time_or_not(fault: str, heir_ms: int, expected: Validity) -> None:
    told = taken_over(heir_ms=heir_ms).fault(fault, "a", at_ms=20)

    verdict = takeover.check(told.history(), lease_s=1.0, grace_s=2.0)

    assert verdict.validity is expected
    assert verdict.counts["slowest s"] == pytest.approx((heir_ms + 1 - 20) / 1_000)


def test_a_queue_that_nobody_takes_over_is_noticed() -> None:
    told = Story().lock(1, at_ms=0).deliver(("m0", 0), at_ms=10).fault("kill", "a", at_ms=20)

    assert takeover.check(told.history(), lease_s=1.0).validity is Validity.INVALID


def test_a_pause_that_its_holder_survives_is_no_take_over() -> None:
    told = Story().lock(1, at_ms=0).fault("pause", "a", at_ms=20).fault("resume", "a", at_ms=40)

    verdict = takeover.check(told.lock(1, at_ms=50).history(), lease_s=1.0)

    assert verdict.validity is Validity.UNKNOWN
