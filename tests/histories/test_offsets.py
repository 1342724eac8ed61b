"""INV-3 by hand: places given twice, taken back, moved, out of order, or left out."""

import pytest

from tests.histories import offsets
from tests.histories.building import Story
from tests.histories.care_building import CareStory
from tests.histories.events import Kind
from tests.histories.verdicts import Validity, Verdict


def judged(told: Story) -> Verdict:
    """Return what INV-3 says."""
    verdict = offsets.check(told.history())
    print(verdict)
    return verdict


def sent(count: int) -> Story:
    """Send messages one after the other, into one queue."""
    told = Story()
    for offset in range(count):
        told.send(f"m{offset}", at_ms=1 + 2 * offset, offset=offset)
    return told


def test_places_that_rise_without_a_hole_are_right() -> None:
    told = sent(3).deliver(("m0", 0), ("m1", 1), at_ms=100).progress(0, 3, at_ms=110)

    verdict = judged(told.fault("kill", "broker", at_ms=120).start_broker(at_ms=130))

    assert verdict.validity is Validity.VALID
    assert verdict.counts["places"] == 3


@pytest.mark.parametrize(
    "told",
    [
        sent(1).deliver(("m0", 7), at_ms=100),
        sent(2).deliver(("m0", 0), at_ms=100).deliver(("m1", 0), at_ms=110),
        sent(1).deliver(("m0", 0), at_ms=100).deliver(("m0", 0), at_ms=110, queue=1),
        Story().send("m0").send("m1", at_ms=9),
        Story().send("m0", "m1", offset=4).send("m2", at_ms=9, offset=3),
        sent(2).fault("kill", "broker", at_ms=10).start_broker(at_ms=20).send("m2", at_ms=30),
        sent(3).fault("cut", "broker", at_ms=10).start_broker(at_ms=20).progress(0, 2, at_ms=30),
        Story().deliver(("m0", 5), at_ms=10).send("m1", at_ms=20, offset=4),
        Story().progress(0, 9, at_ms=10).send("m0", at_ms=20, offset=8),
        sent(2).send("m3", at_ms=50, offset=3),
    ],
    ids=[
        "elsewhere than the answer said",
        "two messages at one place",
        "one message in two queues",
        "two answers with one place",
        "behind an answer, before its place",
        "given again after a restart",
        "an end that fell over a power cut",
        "before what was delivered",
        "before an end that was read",
        "a hole",
    ],
)
def test_a_wrong_place_is_noticed(told: Story) -> None:
    assert judged(told).validity is Validity.INVALID


def test_messages_of_one_send_lie_in_the_order_of_the_send() -> None:
    places = [[0, 1], [0, 0]]
    messages = [["a", None, None, "x"], ["b", None, None, "y"]]
    asked = {"producer": "p", "topic": "orders", "messages": messages}

    def answered(places: list[list[int]], **told: object) -> Story:
        return Story().operate("p", offsets.Verb.SEND, (1, 2), asked, places=places, **told)

    assert judged(answered(places)).validity is Validity.INVALID
    assert judged(answered(places[::-1])).validity is Validity.VALID
    assert judged(answered(places, repeats=[False, True])).validity is Validity.VALID


def test_sends_at_the_same_time_may_lie_either_way() -> None:
    told = Story().send("a", at_ms=1, took_ms=9, offset=1).send("b", at_ms=2, took_ms=1)

    assert judged(told).validity is Validity.VALID


def test_a_place_of_a_send_without_an_answer_is_no_hole() -> None:
    told = sent(2).send("lost", at_ms=20, kind=Kind.INFO).send("m3", at_ms=50, offset=3)
    seen = sent(2).send("lost", at_ms=20, kind=Kind.INFO).send("m3", at_ms=50, offset=3)
    seen.deliver(("lost", 4), at_ms=90)

    assert judged(told).validity is Validity.VALID
    # It lies elsewhere, so the hole is one.
    assert judged(seen).counts["holes"] == 1


def test_an_end_behind_all_that_is_known_is_a_hole_too() -> None:
    assert judged(sent(2).progress(0, 4, at_ms=50)).validity is Validity.INVALID


def test_a_repeated_commit_names_an_earlier_place() -> None:
    told = CareStory().begin("t").end("t", at_ms=10, offset=0)
    told.send("m", at_ms=20, offset=1).end("t", at_ms=30, offset=0, is_repeat=True)
    again = CareStory().begin("t").end("t", at_ms=10, offset=0)
    again.send("m", at_ms=20, offset=1).end("t", at_ms=30, offset=0)

    assert judged(told).validity is Validity.VALID
    assert judged(again).validity is Validity.INVALID


def test_without_a_place_nothing_is_known() -> None:
    assert judged(Story()).validity is Validity.UNKNOWN
