"""The core of a lite pull consumer alone: answers that come when nobody wants them any more."""

from mqclient.consuming.lite_core import LitePullCore
from mqclient.consuming.settings import LitePullSettings
from mqclient.errors import StaleGeneration
from mqclient.protocol.calls import Calls, Endpoint
from mqclient.protocol.work import Job
from mqclient.values import MemberAnswer, Subscription, TopicQueue

from tests.sdk.push.doubles import ManualClock

PLACE = TopicQueue("orders", 0)
ORDERS = (Subscription(topic="orders"),)


def answer(generation: int) -> MemberAnswer:
    return MemberAnswer(generation=generation, queues=frozenset({PLACE}), heartbeat_ms=10_000)


def joined(core: LitePullCore, generation: int) -> None:
    core.subscribe(ORDERS)
    core.joined(answer(generation))
    core.take_over({PLACE: 0})


def subscribed() -> LitePullCore:
    settings = LitePullSettings(group="g", client_id="a", trace=False)
    core = LitePullCore(settings, Calls(Endpoint.of("http://broker")), clock=ManualClock())
    joined(core, 1)
    return core


def taken(core: LitePullCore) -> list[Job]:
    found = []
    while job := core.take():
        found.append(job)
    return found


def refused() -> StaleGeneration:
    return StaleGeneration("another assignment counts")


def test_the_refusal_of_a_pull_from_before_unsubscribing_takes_no_queue_away() -> None:
    core = subscribed()
    _, old_pull = taken(core)
    core.unsubscribe()
    core.subscribe(ORDERS)
    core.joined(answer(2))

    old_pull.done(None, refused())

    assert core.gained() == [PLACE]


def test_the_refusal_of_a_pull_under_way_does() -> None:
    core = subscribed()
    _, pull = taken(core)

    pull.done(None, refused())

    assert core.lost() == [PLACE]


def test_a_late_answer_to_joining_does_not_take_the_word_from_a_newer_heartbeat() -> None:
    core = subscribed()
    _, pull = taken(core)
    core.subscribe(ORDERS)
    pull.done(None, refused())
    [heartbeat] = taken(core)

    core.joined(answer(2))
    followers = taken(core)
    heartbeat.done(answer(2), None)
    core.give_up([PLACE])

    assert followers == []
    assert core.gained() == [PLACE]
