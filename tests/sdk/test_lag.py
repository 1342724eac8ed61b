"""What a group has left to do, as the client reads and prints it: in queues and in lite topics."""

from typing import Any

import pytest
from mqclient import Admin, AsyncAdmin, GroupLag, InvalidName, LiteLag, QueueLag

from tests.sdk.fake_broker import FakeBroker
from tests.sdk.test_cli import mq

BEHIND = {
    "topic": "inbox", "lag": "1204", "topics_behind": 312, "in_flight": 3, "ready": "1201",
    "oldest_age_ms": 60_000,
}  # fmt: skip
UNCOUNTED: dict[str, Any] = {**dict.fromkeys(BEHIND), "topic": "chats"}


@pytest.fixture
def backlog(broker: FakeBroker) -> FakeBroker:
    """Return a broker where group g is behind by two messages in a queue, and in lite topics."""
    broker.put("orders", 2, b"a", b"b")
    broker.committed["g", "orders", 2] = 0
    broker.lites = [BEHIND]
    return broker


def test_lag_is_told_by_queue_by_parent_of_lite_topics_and_in_all(backlog: FakeBroker) -> None:
    with Admin(backlog.url) as admin:
        found = admin.group_lag("g")
        nobody = admin.group_lag("nobody").queues
        with pytest.raises(InvalidName):
            admin.group_lag("no group")

    assert found == GroupLag(
        queues=(QueueLag(topic="orders", queue=2, lag=2, in_flight=0, ready=2),),
        lites=(
            LiteLag(
                topic="inbox",
                lag=1204,
                topics_behind=312,
                in_flight=3,
                ready=1201,
                oldest_age_ms=60_000,
            ),
        ),
        lag=1206,
        retry_lag=0,
        lite_lag=1204,
        oldest_age_ms=None,
    )
    assert nobody == ()


async def test_what_is_not_counted_yet_is_none_and_so_is_the_sum(backlog: FakeBroker) -> None:
    backlog.lites = [BEHIND, UNCOUNTED]

    async with AsyncAdmin(backlog.url) as admin:
        found = await admin.group_lag("g")

    assert (found.lag, found.lite_lag) == (None, None)
    assert [one.lag for one in found.lites] == [1204, None]
    assert found.lites[1].topics_behind is None


def test_mq_prints_a_line_for_each_queue_and_parent_and_one_for_all(backlog: FakeBroker) -> None:
    known = mq(backlog, "group", "lag", "g")
    backlog.lites = [UNCOUNTED]
    unknown = mq(backlog, "group", "lag", "g")

    assert (known.returncode, unknown.returncode) == (0, 0)
    assert known.stdout.decode().splitlines() == [
        "topic\tqueue\tlag\tin_flight\tready\toldest_ms",
        "orders\t2\t2\t0\t2\t?",
        "inbox\t312 lite topics\t1204\t3\t1201\t60000",
        "total\t\t1206\t\t\t?",
    ]
    assert unknown.stdout.decode().splitlines()[2:] == [
        "chats\t? lite topics\t?\t?\t?\t?",
        "total\t\t?\t\t\t?",
    ]


def test_mq_shows_no_age_where_nothing_is_left(broker: FakeBroker) -> None:
    broker.committed["g", "orders", 0] = 0

    shown = mq(broker, "group", "lag", "g")

    assert shown.stdout.decode().splitlines()[1:] == ["orders\t0\t0\t0\t0\t-", "total\t\t0\t\t\t-"]
