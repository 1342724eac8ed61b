"""Broadcasting: every member hears everything, and keeps its offsets itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mqclient import (
    AsyncPushConsumer,
    Conflict,
    Consumed,
    ConsumeFrom,
    InvalidArgument,
    MessageModel,
    PushConsumer,
)

from tests.sdk.fake_broker import FakeBroker
from tests.sdk.push.hearing import Ear, wait_until


def settings(folder: Path, client: str = "a", **more: Any) -> dict[str, Any]:
    return {
        "group": "g", "topics": "orders", "model": MessageModel.BROADCASTING, "client_id": client,
        "offsets_folder": folder, **more,
    }  # fmt: skip


def member(broker: FakeBroker, ear: Ear, folder: Path, client: str = "a", **more: Any) -> Any:
    return PushConsumer(broker.url, listener=ear, **settings(folder, client, **more))


def fill(broker: FakeBroker, text: bytes) -> None:
    for queue in range(4):
        broker.put("orders", queue, b"%s-%d" % (text, queue))


@pytest.mark.parametrize("ordered", [False, True])
def test_every_member_hears_every_message(
    broker: FakeBroker, tmp_path: Path, ordered: bool
) -> None:
    fill(broker, b"x")
    first, second = Ear(), Ear()

    with (
        member(broker, first, tmp_path, "a", ordered=ordered),
        member(broker, second, tmp_path, "b", ordered=ordered),
    ):
        first.wait_for_count(4)
        second.wait_for_count(4)

    assert sorted(first.bodies) == sorted(second.bodies)
    assert broker.committed == {}
    assert not any("locks:" in line or "offsets:" in line for line in broker.requests)


def test_a_member_goes_on_where_it_was(broker: FakeBroker, tmp_path: Path) -> None:
    fill(broker, b"old")
    before, after = Ear(), Ear()
    with member(broker, before, tmp_path):
        before.wait_for_count(4)
    fill(broker, b"new")
    with member(broker, after, tmp_path):
        after.wait_for_count(4)

    assert {body[:3] for body in after.bodies} == {b"new"}


def test_offsets_are_kept_while_it_runs(broker: FakeBroker, tmp_path: Path) -> None:
    fill(broker, b"x")
    ear = Ear()
    with member(broker, ear, tmp_path, commit_s=1e-6) as running:
        ear.wait_for_count(4)
        fill(broker, b"y")
        ear.wait_for_count(8)
        path = running._parts.kept.path
        wait_until(path.exists)

    assert path.parent.parent == tmp_path


@pytest.mark.parametrize("ordered", [False, True])
def test_a_failure_is_logged_and_the_message_dropped(
    broker: FakeBroker, tmp_path: Path, ordered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    broker.put("orders", 0, b"bad", b"good")
    ear = Ear(lambda message, _: Consumed.SUCCESS if message.body == b"good" else None)

    with member(broker, ear, tmp_path, ordered=ordered):
        ear.wait_for_count(2)

    assert sorted(ear.bodies) == [b"bad", b"good"]
    assert "1 messages are dropped" in caplog.text


@pytest.mark.parametrize(
    ("wish", "heard"),
    [
        ({}, [b"old", b"new"]),
        ({"consume_from": ConsumeFrom.FIRST}, [b"old", b"new"]),
        ({"consume_from": ConsumeFrom.LAST}, [b"new"]),
        ({"consume_from": ConsumeFrom.TIMESTAMP, "consume_from_ms": 1_001}, [b"new"]),
        ({"consume_from": ConsumeFrom.TIMESTAMP, "consume_from_ms": 1_000}, [b"old", b"new"]),
    ],
)
def test_a_new_member_begins_where_it_wishes(
    broker: FakeBroker, tmp_path: Path, wish: dict[str, Any], heard: list[bytes]
) -> None:
    broker.put("orders", 0, b"old")
    ear = Ear()

    with member(broker, ear, tmp_path, **wish):
        wait_until(lambda: any("/queues/0/messages" in line for line in broker.requests))
        broker.put("orders", 0, b"new")
        ear.wait_for_count(len(heard))

    assert ear.bodies == heard


@pytest.mark.parametrize(("minimum", "kept"), [(3, 1), (0, 99)])
def test_a_kept_offset_outside_the_queue_is_moved_into_it(
    broker: FakeBroker, tmp_path: Path, minimum: int, kept: int
) -> None:
    broker.put("orders", 0, *(b"%d" % number for number in range(5)))
    with member(broker, Ear(), tmp_path) as first:
        path = first._parts.kept.path
    path.write_text(f'{{"version": 1, "offsets": {{"orders": {{"0": {kept}}}}}}}')
    broker.minimum["orders", 0] = minimum
    heard = [b"3", b"4", b"new"] if minimum else [b"new"]
    ear = Ear()

    with member(broker, ear, tmp_path):
        wait_until(lambda: any("/queues/0/messages" in line for line in broker.requests))
        broker.put("orders", 0, b"new")
        ear.wait_for_count(len(heard))

    assert sorted(ear.bodies) == heard


def test_a_member_needs_a_name_that_outlives_it(broker: FakeBroker, tmp_path: Path) -> None:
    unnamed = settings(tmp_path)
    del unnamed["client_id"]

    with pytest.raises(InvalidArgument):
        PushConsumer(broker.url, listener=Ear(), **unnamed)


def test_two_consumers_cannot_be_the_same_member(broker: FakeBroker, tmp_path: Path) -> None:
    with member(broker, Ear(), tmp_path):
        second = member(broker, Ear(), tmp_path)
        with pytest.raises(Conflict):
            second.start()
    second.close()


async def test_an_async_member_hears_everything_and_goes_on_where_it_was(
    broker: FakeBroker, tmp_path: Path
) -> None:
    fill(broker, b"old")
    before, after = Ear(), Ear()

    async def heard(ear: Ear, count: int) -> None:
        async with AsyncPushConsumer(broker.url, listener=ear.listen, **settings(tmp_path)):
            async with asyncio.timeout(60):
                while len(ear.bodies) < count:
                    await asyncio.sleep(0.002)

    await heard(before, 4)
    fill(broker, b"new")
    await heard(after, 4)

    assert {body[:3] for body in after.bodies} == {b"new"}
