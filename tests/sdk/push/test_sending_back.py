"""Failed messages on a desk: sent back, kept where the broker has them not, seen again.

For a concurrent member; an ordered one tries in place (test_giving_up).
"""

from typing import Any

import pytest
from mqclient.consuming.push.listening import Consumed
from mqclient.errors import ConnectFailed, MqError, NotPermitted, Overloaded, StaleGeneration
from mqclient.values import (
    ConsumeFrom,
    MemberAnswer,
    MessageModel,
    PullStatus,
    QueueRange,
    Returned,
    SentBack,
    TopicInfo,
)
from mqclient.wire.batches import Pulled
from mqclient.wire.records import unpack_records

from tests.sdk.fake_bytes import make_record
from tests.sdk.push.doubles import FIRST, RETRIES, Desk, lost, offsets_of, pulled


def reading(count: int, **settings: Any) -> Desk:
    """Return a desk with the first queue begun at 0 and so many messages of it here."""
    bench = Desk(settings)
    bench.assign(FIRST)
    bench.begin(q0=0)
    bench.bring(FIRST, range(count))
    return bench


@pytest.mark.parametrize("result", [None, Consumed.RETRY_LATER, True, "success "])
def test_anything_but_success_sends_a_message_back_and_is_committed_then(result: object) -> None:
    bench = reading(1)
    bench.core.finish(bench.listen(), result, "later")
    before = bench.core.positions()[FIRST]
    document = bench.take_back()

    assert document == {
        "client_id": "me", "generation": 1, "reason": "later",
        "messages": [{"topic": "orders", "queue": 0, "offset": "0"}],
    }  # fmt: skip
    assert (before, bench.core.positions()[FIRST]) == (0, 1)
    assert bench.core.next_delivery() is None


def test_a_listener_says_when_its_messages_come_again_and_why() -> None:
    bench = reading(3, consume_batch_max=3)
    delivery = bench.listen()
    delivery.context.ack_index = 0
    delivery.context.delay_level = 7
    delivery.context.reason = "the shop is closed"
    bench.succeed(delivery)

    document = bench.take_back()

    assert (document["delay_level"], document["reason"]) == (7, "the shop is closed")
    assert [item["offset"] for item in document["messages"]] == ["1", "2"]


@pytest.mark.parametrize("error", [ConnectFailed("away"), Overloaded("busy"), NotPermitted("no")])
def test_what_the_broker_does_not_take_back_comes_again_here(error: MqError) -> None:
    bench = reading(1)
    bench.fail(bench.listen())
    bench.one("send-back").fail(error)
    (head,) = bench.core.blocked()
    bench.advance(4.99)
    early = bench.core.next_delivery()
    bench.advance(0.02)

    again = bench.listen()

    assert early is None
    assert (head.queue_offset, head.attempts) == (0, 1)
    assert offsets_of(again) == [0]
    assert again.context.attempt == 2
    assert bench.core.positions()[FIRST] == 0


def test_a_message_the_broker_refuses_among_others_comes_again_here() -> None:
    bench = reading(2, consume_batch_max=2)
    bench.fail(bench.listen())
    bench.one("send-back").answer(
        [
            Returned(index=0, status=200, outcome=SentBack.RETRY),
            Returned(index=1, status=403, outcome=None),
        ]
    )
    bench.advance(5.0)

    assert offsets_of(bench.listen()) == [1]
    assert bench.core.positions()[FIRST] == 1


def test_sending_back_is_repeated_where_its_outcome_is_unknown() -> None:
    bench = reading(1)
    bench.fail(bench.listen())
    bench.one("send-back").fail(lost())
    at_once = bench.has("send-back")
    bench.advance(5.0)
    heard_meanwhile = bench.core.next_delivery()
    bench.take_back(SentBack.ALREADY)

    assert not at_once
    assert heard_meanwhile is None
    assert bench.core.positions()[FIRST] == 1


def test_a_message_that_failed_in_a_lost_queue_is_not_sent_back() -> None:
    bench = reading(1)
    running = bench.listen()
    bench.assign(generation=2)
    bench.fail(running)

    assert not bench.has("send-back")


def test_sending_back_for_another_owners_queue_gives_the_queue_up() -> None:
    bench = reading(1)
    bench.fail(bench.listen())
    bench.one("send-back").fail(StaleGeneration("another has it"))
    bench.advance(1.0)
    bench.begin(q0=0)

    assert bench.pull_of(FIRST).query["offset"] == "0"


@pytest.mark.parametrize("model", list(MessageModel))
def test_what_was_not_tried_comes_again_here_and_is_no_failure(model: MessageModel) -> None:
    bench = Desk({"model": model, "client_id": "me"})
    bench.assign(FIRST)
    if model is MessageModel.BROADCASTING:
        info = TopicInfo(
            topic="orders",
            type="MIXED",
            queue_count=1,
            queues=(QueueRange(queue=0, min_offset=0, max_offset=0),),
        )
        bench.one("orders").answer(info)
    else:
        bench.begin(q0=0)
    bench.bring(FIRST, range(1))
    bench.core.give_back(bench.core.finish(bench.listen(), Consumed.NOT_NOW, ""))
    early = bench.core.next_delivery()
    bench.advance(5.0)

    again = bench.listen()

    assert early is None
    assert (offsets_of(again), again.context.attempt) == ([0], 1)
    assert not bench.has("send-back")
    assert bench.core.blocked() == []


def test_closing_waits_for_what_is_being_sent_back() -> None:
    bench = reading(1)
    running = bench.listen()
    idle: list[bool] = []
    bench.core.stop(lambda: idle.append(True))
    bench.fail(running)
    request = bench.one("send-back")
    before = list(idle)
    request.answer([Returned(index=0, status=200, outcome=SentBack.RETRY)])

    assert (before, idle) == ([], [True])
    assert bench.core.positions()[FIRST] == 1


def test_a_member_wants_what_failed_before_and_reads_it_from_the_first() -> None:
    bench = Desk({"consume_from": ConsumeFrom.LAST})
    beat = bench.one("heartbeat")
    beat.answer(MemberAnswer(generation=1, queues=frozenset({FIRST, RETRIES}), heartbeat_ms=10_000))
    own = bench.one("begin")
    own.answer({FIRST: 5})
    again = bench.one("begin")
    again.answer({RETRIES: 0})

    assert [item["topic"] for item in beat.document["subscriptions"]] == ["orders", "%RETRY%g"]
    assert (own.document["consume_from"], again.document["consume_from"]) == ("last", "first")
    assert [item["topic"] for item in again.document["queues"]] == ["%RETRY%g"]
    assert bench.pull_of(RETRIES).query["group"] == "g"
    assert bench.core.assignment() == (FIRST,)


def test_a_listener_sees_where_a_retried_message_came_from_and_its_attempt() -> None:
    bench = Desk()
    bench.assign(RETRIES)
    bench.one("begin").answer({RETRIES: 0})
    bench.pull_of(RETRIES).answer(retried(times=3))

    delivery = bench.listen()

    (message,) = delivery.messages
    assert delivery.context.attempt == 4
    assert delivery.context.queue == RETRIES
    assert (message.topic, message.stored_topic) == ("orders", "%RETRY%g")
    assert message.origin_message_id == "ID"
    assert [(one.number, one.reason) for one in message.failed_attempts] == [(1, "broken")]


def retried(times: int) -> Pulled:
    properties = (
        "RETRY_TOPIC\x01orders\x02ORIGIN_MESSAGE_ID\x01ID\x02"
        'RETRY_HISTORY\x01[[1,5,"broken","me"]]\x02'
    )
    record = bytearray(make_record("%RETRY%g", 0, b"x", properties.encode()))
    record[72:76] = times.to_bytes(4, "big")
    items = unpack_records(bytes(record), 0, [len(record)], None)
    return pulled(PullStatus.FOUND, 1, items)
