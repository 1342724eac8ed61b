"""INV-1, INV-2, INV-12 by hand: what is lost, what nobody sent, what does not match."""

import pytest

from tests.histories import filtering, loss, phantoms
from tests.histories.building import GROUP, TOPIC, Story
from tests.histories.events import Kind, Verb
from tests.histories.verdicts import Validity, Verdict


def sent(count: int, told: Story | None = None) -> Story:
    """Send so many messages."""
    told = told or Story()
    for offset in range(count):
        told.send(f"m{offset}", at_ms=1 + 2 * offset, offset=offset, tag="xy"[offset % 2])
    return told


def done(told: Story, *offsets: int) -> Story:
    """Do these offsets."""
    for step, offset in enumerate(offsets):
        told.deliver((f"m{offset}", offset), at_ms=100 + 2 * step)
    return told


def drained(told: Story, end: int) -> Story:
    """Say that the group has done everything."""
    return told.progress(end, end, at_ms=500)


def judged_loss(told: Story) -> Verdict:
    """Return what INV-1 says."""
    verdict = loss.check(told.history())
    print(verdict)
    return verdict


def test_everything_done_is_nothing_lost() -> None:
    verdict = judged_loss(drained(done(sent(3), 0, 1, 2), 3))

    assert verdict.validity is Validity.VALID
    assert verdict.counts["acked"] == 3


@pytest.mark.parametrize(
    ("offsets", "kind"),
    [((1, 2), "prefix"), ((0, 2), "middle"), ((0, 1), "postfix"), ((), "postfix")],
)
def test_a_lost_message_is_found_wherever_it_was(offsets: tuple[int, ...], kind: str) -> None:
    verdict = judged_loss(drained(done(sent(3), *offsets), 3))

    assert verdict.validity is Validity.INVALID
    assert verdict.counts[f"lost ({kind})"] == 3 - len(offsets)


def test_what_is_last_may_still_be_on_its_way() -> None:
    assert judged_loss(done(sent(3), 0, 1)).validity is Validity.UNKNOWN
    assert judged_loss(done(sent(3), 0, 2)).validity is Validity.INVALID


def test_a_reading_before_the_last_send_shows_nothing_of_it() -> None:
    told = done(sent(3), 0, 1, 2).progress(3, 3, at_ms=300).send("m3", at_ms=400, offset=3)

    assert judged_loss(told).validity is Validity.UNKNOWN


def test_a_delivery_that_failed_has_not_been_done() -> None:
    told = sent(1).deliver(("m0", 0), at_ms=100, done=0)

    assert judged_loss(drained(told, 1)).validity is Validity.INVALID


def test_a_message_given_up_is_not_lost() -> None:
    told = sent(1).deliver(("m0", 0), at_ms=100, done=0)
    told.notice(110, Verb.DEAD, group=GROUP, topic=TOPIC, queue=0, offset=0)

    assert judged_loss(drained(told, 1)).validity is Validity.VALID


@pytest.mark.parametrize("copies", [[], [[GROUP, TOPIC, 0, 0]], [[GROUP, TOPIC, 0, 1]]])
def test_a_message_nobody_answered_for_is_given_up_where_the_store_has_its_copy(
    copies: list[list[object]],
) -> None:
    told = sent(1).deliver(("m0", 0), at_ms=100, done=0)
    told.notice(110, Verb.DEAD_UNKNOWN, group=GROUP, topic=TOPIC, queue=0, offset=0)
    told.operate("run", Verb.INSPECT, (400, 401), {"topics": [TOPIC]}, sent_back=copies)

    is_kept = copies == [[GROUP, TOPIC, 0, 0]]
    assert (judged_loss(drained(told, 1)).validity is Validity.VALID) == is_kept


@pytest.mark.parametrize("kind", [Kind.INFO, Kind.FAIL])
def test_a_send_without_an_ok_promises_nothing(kind: Kind) -> None:
    told = done(sent(1), 0).send("late", at_ms=50, offset=1, kind=kind)

    assert judged_loss(drained(told, 1)).validity is Validity.VALID


def test_a_send_without_an_answer_that_came_is_counted() -> None:
    told = Story().send("m0").send("m1", at_ms=9, offset=1, kind=Kind.INFO)

    verdict = judged_loss(drained(done(told, 0, 1), 2))

    assert verdict.counts["unknown sends that came"] == 1


def test_what_a_group_does_not_want_is_not_lost() -> None:
    assert judged_loss(drained(done(sent(2, Story(tags=["x"])), 0), 2)).validity is Validity.VALID
    assert judged_loss(drained(done(sent(2, Story(tags=["y"])), 0), 2)).validity is Validity.INVALID


def test_nothing_sent_shows_nothing() -> None:
    assert judged_loss(Story()).validity is Validity.UNKNOWN


def found_phantoms(told: Story) -> Validity:
    """Return what INV-2 says."""
    verdict = phantoms.check(told.history())
    print(verdict)
    return verdict.validity


def test_what_was_sent_may_come() -> None:
    assert found_phantoms(done(sent(3), 0, 1, 2)) is Validity.VALID
    assert found_phantoms(done(Story().send("m0", kind=Kind.INFO), 0)) is Validity.VALID


@pytest.mark.parametrize(
    "told",
    [
        done(Story(), 0),
        done(Story().send("m0", kind=Kind.FAIL), 0),
        sent(1).deliver(("m0", 0), at_ms=100, digest="another"),
        sent(1).deliver(("m0", 0), at_ms=0.5),
        done(Story().send("m0").send("m0", at_ms=9, offset=1), 0),
    ],
    ids=[
        "nobody sent it",
        "its send was refused",
        "another body",
        "before it was sent",
        "one id for two messages",
    ],
)
def test_a_phantom_is_noticed(told: Story) -> None:
    assert found_phantoms(told) is Validity.INVALID


def test_nothing_delivered_shows_nothing() -> None:
    assert found_phantoms(sent(3)) is Validity.UNKNOWN


def found_filtering(told: Story) -> Validity:
    """Return what INV-12 says."""
    verdict = filtering.check(told.history())
    print(verdict)
    return verdict.validity


def test_all_that_matches_and_nothing_else_is_right() -> None:
    assert found_filtering(drained(done(sent(4, Story(tags=["x"])), 0, 2), 4)) is Validity.VALID
    assert found_filtering(drained(done(sent(2), 0, 1), 2)) is Validity.VALID


def test_a_message_that_does_not_match_is_noticed() -> None:
    told = drained(done(sent(4, Story(tags=["x"])), 0, 1, 2), 4)

    assert found_filtering(told) is Validity.INVALID


def test_a_message_that_matches_and_does_not_come_is_noticed() -> None:
    told = done(sent(4, Story(tags=["x"])), 0)

    assert found_filtering(told) is Validity.UNKNOWN
    assert found_filtering(drained(told, 4)) is Validity.INVALID


def test_a_changed_subscription_rules_from_then_on() -> None:
    story = sent(4, Story(tags=["x"])).subscribe(3_000, tags=["y"])
    early = story.deliver(("m0", 0), at_ms=2_000).deliver(("m1", 1), at_ms=4_000)
    before = sent(4, Story(tags=["x"])).subscribe(3_000, tags=["y"])
    before.deliver(("m1", 1), at_ms=2_000)
    long_after = sent(4, Story(tags=["x"])).subscribe(3_000, tags=["y"])
    long_after.deliver(("m0", 0), at_ms=9_000)

    assert found_filtering(early) is Validity.VALID
    assert found_filtering(before) is Validity.INVALID
    assert found_filtering(long_after) is Validity.INVALID


def test_a_filter_of_another_kind_is_judged_by_its_own_rule() -> None:
    told = drained(done(sent(4), 0, 1), 4)

    verdict = filtering.check(told.history(), matches=lambda message, _: message.id < "m2")

    assert verdict.validity is Validity.VALID


def test_a_topic_nobody_subscribed_to_is_not_judged() -> None:
    assert TOPIC == "orders"
    assert loss.check(Story().history()).counts["acked"] == 0
