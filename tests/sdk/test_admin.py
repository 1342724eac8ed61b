"""What an administrator decides about topics and groups."""

import pytest
from mqclient import Admin, AsyncAdmin, InvalidArgument, LiteTopic, RetryPolicy, UnknownTopic

from tests.sdk.fake_broker import FakeBroker
from tests.sdk.test_cli import mq


def test_a_topic_may_be_given_a_life(broker: FakeBroker) -> None:
    with Admin(broker.url) as admin:
        admin.create_topic("a", expires_ms=60_000)
        admin.create_topic("b")

    assert broker.documents == [
        ("a", {"queue_count": 4, "type": "MIXED", "expires_ms": 60_000}),
        ("b", {"queue_count": 4, "type": "MIXED"}),
    ]


async def test_an_async_admin_gives_it_too(broker: FakeBroker) -> None:
    async with AsyncAdmin(broker.url) as admin:
        await admin.create_topic("a", queue_count=1, expires_ms=1_000)

    assert broker.documents == [("a", {"queue_count": 1, "type": "MIXED", "expires_ms": 1_000})]


def test_a_topic_keeps_its_messages_as_it_is_told(broker: FakeBroker) -> None:
    with Admin(broker.url) as admin:
        admin.create_topic("a", cleanup="compact")
        admin.update_topic("b", retention_ms=60_000)
        admin.update_topic("b", retention_ms=0, expires_ms=0)
        admin.update_topic("b", queue_count=2)

    assert broker.documents == [
        ("a", {"queue_count": 4, "type": "MIXED", "cleanup": "compact"}),
        ("b", {"retention_ms": 60_000}),
        ("b", {"expires_ms": None, "retention_ms": None}),
        ("b", {"queue_count": 2}),
    ]


def test_how_a_group_tries_again_is_decided_in_part(broker: FakeBroker) -> None:
    with Admin(broker.url) as admin:
        admin.set_retry("g", retry_max=3)
        admin.set_retry("g", retry_policy=RetryPolicy.CUSTOM, retry_delays_ms=[100, 5_000])
        with pytest.raises(InvalidArgument):
            admin.set_retry("g")

    assert broker.group_settings == {
        "g": {"retry_max": 3, "retry_policy": "custom", "retry_delays_ms": [100, 5_000]}
    }


async def test_dead_letters_are_read_page_after_page(broker: FakeBroker) -> None:
    broker.dead_letters = [
        {
            "id": str(number), "state": "dead", "origin_topic": None, "message_id": f"M{number}",
            "attempt_count": 1, "reason": "",
        }
        for number in range(5)
    ]  # fmt: skip

    async with AsyncAdmin(broker.url) as admin:
        letters = await admin.dead_letters("g")
        job = await admin.resend_dead_letters("g", [letters[0].letter_id])
        await admin.set_retry("g", retry_max=0)

    assert [letter.message_id for letter in letters] == [f"M{number}" for number in range(5)]
    assert letters[0].topic == ""
    assert job == "job-1"
    assert broker.group_settings == {"g": {"retry_max": 0}}


def _with_lites(broker: FakeBroker) -> None:
    broker.topics |= {"inbox": 1} | {f"%LITE%inbox|u{number}": 1 for number in range(5)}
    for number in range(5):
        broker.put(f"%LITE%inbox|u{number}", 0, *[b"x"] * number)


def test_lite_topics_are_read_page_after_page(broker: FakeBroker) -> None:
    _with_lites(broker)

    with Admin(broker.url) as admin:
        found = admin.lite_topics("inbox")
        with pytest.raises(UnknownTopic):
            admin.lite_topics("nowhere")

    assert [one.name for one in found] == ["u1", "u2", "u3", "u4"]
    assert found[3] == LiteTopic(
        name="u4",
        topic="%LITE%inbox|u4",
        min_offset=0,
        max_offset=4,
        newest_at=None,
        subscribers=0,
    )


async def test_an_async_admin_reads_lite_topics_too(broker: FakeBroker) -> None:
    _with_lites(broker)

    async with AsyncAdmin(broker.url) as admin:
        found = await admin.lite_topics("inbox")

    assert [one.max_offset for one in found] == [1, 2, 3, 4]


def test_mq_lists_lite_topics(broker: FakeBroker) -> None:
    _with_lites(broker)

    listed = mq(broker, "topic", "lites", "inbox")

    assert listed.returncode == 0
    assert listed.stdout.decode().splitlines()[:2] == [
        "name\tmin_offset\tmax_offset\tnewest_at",
        "u1\t0\t1\t?",
    ]
