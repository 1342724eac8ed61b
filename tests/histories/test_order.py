"""INV-4 by hand: what must be seen, and what must not be taken for it."""

import pytest

from tests.histories import order
from tests.histories.building import GROUP, TOPIC, Story
from tests.histories.events import Kind, Verb
from tests.histories.verdicts import Validity


def story() -> Story:
    """Four messages of one key in one queue, and a lock for ten seconds."""
    begun = Story().lock(1, at_ms=0, lease_ms=10_000)
    for offset in range(4):
        begun.send(f"m{offset}", at_ms=10 + 2 * offset, offset=offset)
    return begun


def found(told: Story) -> Validity:
    """Return what the checker says."""
    verdict = order.check(told.history())
    print(verdict)
    return verdict.validity


def delivered(told: Story, *offsets: int, at_ms: int = 100) -> Story:
    """Deliver these offsets one after the other."""
    for step, offset in enumerate(offsets):
        told.deliver((f"m{offset}", offset), at_ms=at_ms + 2 * step)
    return told


def test_each_in_turn_is_order() -> None:
    assert found(delivered(story(), 0, 1, 2, 3)) is Validity.VALID


def test_batches_in_turn_are_order() -> None:
    told = story().deliver(("m0", 0), ("m1", 1), at_ms=100).deliver(("m2", 2), at_ms=102)

    assert found(told) is Validity.VALID


@pytest.mark.parametrize(
    "offsets", [(0, 2), (1, 0), (0, 2, 1, 3), (0, 1, 3), (3, 2, 1, 0)], ids=str
)
def test_a_gap_is_no_order(offsets: tuple[int, ...]) -> None:
    assert found(delivered(story(), *offsets)) is Validity.INVALID


def test_a_gap_that_nobody_was_told_of_is_seen_too() -> None:
    told = Story().lock(1, at_ms=0).send("m0", at_ms=10).send("m2", at_ms=20, offset=2)

    assert found(delivered(told, 0, 2)) is Validity.INVALID


def test_a_gap_within_a_batch_is_seen() -> None:
    told = story().deliver(("m0", 0), ("m2", 2), at_ms=100)

    assert found(told) is Validity.INVALID


def test_a_batch_that_runs_backwards_is_seen() -> None:
    told = story().deliver(("m1", 1), ("m0", 0), at_ms=100)

    assert found(told) is Validity.INVALID


def test_the_next_message_waits_for_one_that_failed() -> None:
    retried = story().deliver(("m0", 0), at_ms=100, done=0).deliver(("m0", 0), at_ms=110)
    passed_over = story().deliver(("m0", 0), at_ms=100, done=0).deliver(("m1", 1), at_ms=110)

    assert found(retried) is Validity.VALID
    assert found(passed_over) is Validity.INVALID


def test_the_next_message_waits_for_one_that_is_not_finished() -> None:
    told = story().deliver(("m0", 0), at_ms=100, took_ms=50).deliver(("m1", 1), at_ms=110)

    assert found(told) is Validity.INVALID


def test_a_message_given_up_lets_the_next_one_come() -> None:
    told = story().deliver(("m0", 0), at_ms=100, done=0)
    told.notice(105, Verb.DEAD, group=GROUP, topic=TOPIC, queue=0, offset=0)

    assert found(delivered(told, 1, at_ms=110)) is Validity.VALID


def test_what_was_done_and_not_committed_may_come_again_from_there() -> None:
    told = delivered(story(), 0, 1, 2).commit(1, at_ms=110)

    assert found(delivered(told, 1, 2, 3, at_ms=120)) is Validity.VALID


def test_a_queue_never_goes_back_below_what_is_committed() -> None:
    told = delivered(story(), 0, 1, 2).commit(2, at_ms=110)

    assert found(delivered(told, 1, at_ms=120)) is Validity.INVALID


def test_a_refused_commit_binds_nobody() -> None:
    told = delivered(story(), 0, 1, 2).commit(2, at_ms=110, code="lock_lost")

    assert found(delivered(told, 1, 2, 3, at_ms=120)) is Validity.VALID


def test_an_operator_may_move_a_group_back_and_forth() -> None:
    told = delivered(story(), 0, 1).commit(2, at_ms=110)
    told.notice(115, Verb.RESET, group=GROUP, topic=TOPIC, queue=0, offset=0)
    delivered(told, 0, at_ms=120)
    told.notice(125, Verb.RESET, group=GROUP, topic=TOPIC, queue=0, offset=3)

    assert found(delivered(told, 3, at_ms=130)) is Validity.VALID


def test_a_client_that_stood_still_may_act_once_more_on_what_it_had() -> None:
    """It had looked at its lock, and was stopped before it called its listener."""
    told = delivered(story(), 0).fault("pause", "a", at_ms=110)
    told.lock(2, at_ms=11_000, client="b").deliver(("m1", 1), at_ms=11_010, client="b")
    told.commit(2, at_ms=11_020, epoch=2, client="b")
    told.fault("resume", "a", at_ms=12_000)

    assert found(delivered(told, 1, at_ms=12_001)) is Validity.VALID
    assert found(delivered(told, 1, at_ms=15_000)) is Validity.INVALID


def test_a_key_may_not_overtake_itself_through_another_queue() -> None:
    told = Story().send("m0", at_ms=1, queue=0).send("m1", at_ms=10, queue=1)
    told.lock(1, at_ms=0, queue=0).lock(2, at_ms=0, queue=1)
    told.deliver(("m1", 0), at_ms=100, queue=1).deliver(("m0", 0), at_ms=110, queue=0)

    assert found(told) is Validity.INVALID


def test_messages_sent_at_the_same_time_have_no_order() -> None:
    told = Story().send("m0", at_ms=1, took_ms=20, queue=0).send("m1", at_ms=10, queue=1)
    told.deliver(("m1", 0), at_ms=100, queue=1).deliver(("m0", 0), at_ms=110, queue=0)

    assert found(told) is Validity.VALID


def test_messages_of_one_operation_have_an_order() -> None:
    told = Story().send("m0", "m1", at_ms=1)
    told.deliver(("m1", 0), at_ms=100).deliver(("m0", 1), at_ms=110)

    assert found(told) is Validity.INVALID


def test_keys_do_not_wait_for_each_other() -> None:
    told = Story().send("m0", at_ms=1, key="one").send("m1", at_ms=10, key="two", queue=1)
    told.deliver(("m1", 0), at_ms=100, queue=1).deliver(("m0", 0), at_ms=110)

    assert found(told) is Validity.VALID


def test_a_send_that_nobody_answered_orders_nothing() -> None:
    told = Story().send("m0", at_ms=1, kind=Kind.INFO).send("m1", at_ms=10, queue=1)
    told.deliver(("m1", 0), at_ms=100, queue=1).deliver(("m0", 0), at_ms=110)

    assert found(told) is Validity.VALID


def test_what_does_not_match_is_no_gap() -> None:
    told = Story(tags=["x"])
    for offset, tag in enumerate("xyx"):
        told.send(f"m{offset}", at_ms=10 + 2 * offset, offset=offset, tag=tag)
    skipping_one = Story(tags=["x"])
    for offset in range(3):
        skipping_one.send(f"m{offset}", at_ms=10 + 2 * offset, offset=offset, tag="x")

    assert found(delivered(told, 0, 2)) is Validity.VALID
    assert found(delivered(skipping_one, 0, 2)) is Validity.INVALID


def test_a_group_that_does_not_read_in_order_is_not_judged() -> None:
    told = Story(is_ordered=False).send("m0", at_ms=1).send("m1", at_ms=10, offset=1)

    assert found(delivered(told, 1, 0)) is Validity.UNKNOWN


def test_without_deliveries_nothing_is_known() -> None:
    assert found(story()) is Validity.UNKNOWN
