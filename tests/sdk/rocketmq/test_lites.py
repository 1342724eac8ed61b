"""What a client of lite topics says there: where to begin once, its set again and again."""

from typing import Any

import pytest
from mqclient import Conflict, InvalidArgument, Refused
from mqclient.rocketmq.lites import LiteSet
from mqclient.rocketmq.protos import rocketmq_pb2 as pb

GROUP, PARENT = pb.Resource(name="g"), pb.Resource(name="inbox")
MIN = pb.OffsetOption(policy=pb.OffsetOption.MIN)
QUEUE = {kind: pb.MessageQueue(accept_message_types=[kind]) for kind in (pb.LITE, pb.NORMAL)}


class StillClock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def steady_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)


class Heard:
    """A link that notes what is said of sets."""

    def __init__(self, code: pb.Code = pb.OK) -> None:
        self.code = code
        self.said: list[tuple[int, list[str], bool]] = []

    def call(self, _name: str, request: Any, _answer: object) -> pb.SyncLiteSubscriptionResponse:
        self.said.append(
            (request.action, list(request.lite_topic_set), request.HasField("offset_option"))
        )
        return pb.SyncLiteSubscriptionResponse(status=pb.Status(code=self.code))


def lite_set(
    *names: str, clock: StillClock | None = None, begin: pb.OffsetOption | None = None
) -> LiteSet:
    return LiteSet(GROUP, PARENT, names, begin=begin, clock=clock or StillClock())


def say(lites: LiteSet, link: Heard) -> None:
    lites.say_if_due(lambda: link)  # type: ignore[arg-type,return-value]


def test_a_set_is_said_once_in_half_a_minute_and_at_once_where_it_may_be_forgotten() -> None:
    clock, link = StillClock(), Heard()
    lites = lite_set("a", "b", "a", clock=clock)

    for elapsed_s in (0.0, 29.0, 1.0, 1.0):
        clock.now_s += elapsed_s
        say(lites, link)
    lites.is_said = False
    say(lites, link)

    assert link.said == [(pb.COMPLETE_ADD, ["a", "b"], False)] * 3


def test_where_a_group_begins_is_said_of_each_name_alone_and_never_again() -> None:
    clock, link = StillClock(), Heard()
    lites = lite_set("a", "b", clock=clock, begin=MIN)

    say(lites, link)
    clock.now_s += 30.0
    say(lites, link)

    assert link.said == [
        (pb.PARTIAL_ADD, ["a"], True),
        (pb.PARTIAL_ADD, ["b"], True),
        (pb.COMPLETE_ADD, ["a", "b"], False),
        (pb.COMPLETE_ADD, ["a", "b"], False),
    ]


def test_a_client_without_lite_topics_says_nothing() -> None:
    link = Heard()

    say(lite_set(), link)

    assert link.said == []


def test_more_than_a_client_may_have_is_refused() -> None:
    link = Heard(pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED)

    with pytest.raises(Refused, match="LITE_SUBSCRIPTION_QUOTA_EXCEEDED"):
        say(lite_set("a"), link)

    assert len(link.said) == 1


def test_a_lite_topic_that_is_another_clients_now_is_an_error() -> None:
    link = Heard()
    lites = lite_set("a", "b")

    say(lites, link)
    lites.lost("b")

    with pytest.raises(Conflict, match="lite topic b of inbox"):
        say(lites, link)


@pytest.mark.parametrize(
    ("names", "kind", "what"),
    [((), pb.LITE, "are named"), (("a",), pb.NORMAL, "has no lite topics")],
)
def test_names_go_with_a_parent(names: tuple[str, ...], kind: pb.MessageType, what: str) -> None:
    with pytest.raises(InvalidArgument, match=what):
        lite_set(*names).check_parent([QUEUE[kind]] * 2)


@pytest.mark.parametrize(("names", "kind"), [((), pb.NORMAL), (("a",), pb.LITE)])
def test_a_parent_goes_with_names(names: tuple[str, ...], kind: pb.MessageType) -> None:
    lite_set(*names).check_parent([QUEUE[kind]] * 2)
