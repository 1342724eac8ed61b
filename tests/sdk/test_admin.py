"""Topics that end by themselves, as an administrator makes them."""

from mqclient import Admin, AsyncAdmin

from tests.sdk.fake_broker import FakeBroker


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
