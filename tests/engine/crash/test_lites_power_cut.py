"""Power cut at every sync while lite topics end: hidden, their files removed, their names freed.

Whatever the moment: the store opens, what is young is there, what comes to a name after its end is
handed out once and in order, with its queues made anew from the log as well, and nothing that was
settled comes back.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from apps.engine.broker.core import Broker, open_broker
from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import decode_record
from apps.engine.derived.queueset import CHECKPOINT, QueueSet
from apps.engine.errors import EngineError, StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.litetypes import LiteAction, LiteSync
from apps.engine.local import LocalEngine
from apps.engine.testing.contracts.lite import bodies_of, handles_of, lite_batch
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import AckMode, PullRequest, ReceiveRequest, TopicSpec, TopicType
from tests.engine.local.keeping import CONFIG, HOUR_MS, Keeping, send

AGED_MS = 73 * HOUR_MS
PARENT = TopicSpec(name="chats", queue_count=1, type=TopicType.LITE, lite_ttl_ms=HOUR_MS)
LONG = 70


def new_store() -> Keeping:
    store = Keeping()
    store.topics["chats"] = PARENT
    return store


async def say(engine: LocalEngine, name: str, *bodies: str) -> None:
    await engine.append([lite_batch(name, *bodies)], ack=AckMode.SYNC)


async def prepared(store: Keeping) -> SimulatedDisk:
    """Fill a store: lite topics that are too old, one of them with files, and one that is not."""
    async with store.opened() as engine:
        await say(engine, "old", "old 0", "old 1", "old 2")
        for first in range(0, LONG, 35):
            await say(engine, "long", *(f"long {n}" for n in range(first, first + 35)))
        await subscribe(engine, "old", "long")
        result = await engine.receive(wanted(most=2))
        await engine.ack("g", handles_of(result.leases))
        await engine._host.checkpoint()
        await send(engine, 8)
        store.clock.advance(AGED_MS)
        await say(engine, "live", "live 0")
        await send(engine, 8)
        await say(engine, "live", "live 1")
        return store.disk.crash_image(random.Random(0), CrashMode.EVERYTHING)


async def subscribe(engine: LocalEngine, *names: str) -> None:
    await engine.sync_lite(
        LiteSync(group="g", client_id="c", topic="chats", action=LiteAction.ADD, names=names)
    )


def wanted(*, most: int = 1000) -> ReceiveRequest:
    return ReceiveRequest(
        group="g",
        topics=("chats",),
        client_id="c",
        messages_max=most,
        invisible_ms=HOUR_MS,
        is_lite=True,
    )


async def ended(
    store: Keeping, *, cut_at: int | None = None, spoil: Callable[[LocalEngine], None] | None = None
) -> tuple[int, list[str]]:
    """End lite topics; the power goes at sync `cut_at`.

    Return how many syncs that took, and which messages were acknowledged to who sent them.
    """
    engine = await LocalEngine.open(Path(), store.config, clock=store.clock, disk=store.disk)
    broker = engine._host.broker
    begin = store.disk.sync_count
    store.disk.fail_sync_from = None if cut_at is None else begin + cut_at
    if spoil is not None:
        spoil(engine)
    acknowledged = []
    with suppress(EngineError):
        while broker.expire_lite():
            pass
        await engine._host.checkpoint()
        broker.queues.begin_cleaning()()
        await say(engine, "long", "long again 0")
        acknowledged.append("long again 0")
        await engine.clean_now()
        await engine.clean_now()
        broker.expire_lite()
        await engine._host.checkpoint()
        broker.expire_lite()
        await say(engine, "old", "old again 0")
        acknowledged.append("old again 0")
        await engine._host.checkpoint()
        await say(engine, "old", "old again 1")
        acknowledged.append("old again 1")
    syncs = store.disk.sync_count - begin
    # The process is gone: what its end would write is written to nothing.
    image = store.disk.crash_image(random.Random(0), CrashMode.EVERYTHING)
    kept = store.disk
    kept.fail_sync_from = 1
    with suppress(EngineError):
        await engine.close()
    kept.fail_sync_from = None
    if cut_at is None:
        store.disk = image
    return syncs, acknowledged


def checked(disk: SimulatedDisk, store: Keeping, acknowledged: list[str]) -> None:
    """Open what is left, with its queues and without them; AssertionError when it is bad."""
    for remakes in (False, True):
        image = disk.crash_image(random.Random(0), CrashMode.EVERYTHING)
        if remakes and image.exists(CHECKPOINT):
            image.remove(CHECKPOINT)
        broker = open_broker(image, config=CONFIG, clock=store.clock, failpoints=Failpoints())
        _check(broker, acknowledged)
        broker.close()
        again = open_broker(image, config=CONFIG, clock=store.clock, failpoints=Failpoints())
        assert _received(again) == []
        again.close()


def _check(broker: Broker, acknowledged: list[str]) -> None:
    for name in ("old", "long", "live"):
        broker.appender.write(broker.appender.check([lite_batch(name, f"{name} probe")]))
    broker.log.sync()
    broker.show_synced()
    received = _received(broker)
    for name in ("old", "long", "live"):
        _check_queue(broker, name)
        of_name = [body for body in received if body.startswith(f"{name} ")]
        assert of_name[-1] == f"{name} probe", f"{of_name}: the newest is not handed out"
        sent = [body for body in acknowledged if body.startswith(name)]
        new = [body for body in of_name if "again" in body]
        assert new[: len(sent)] == sent, f"{of_name}: {sent} were acknowledged"
        assert len(set(of_name)) == len(of_name), "handed out twice"
        before = [body for body in of_name if "again" not in body and "probe" not in body]
        assert of_name == [*before, *new, f"{name} probe"], "not in order"
        if sent:
            assert not before or name == "live", f"{before}: what was gone is back"
    assert not {"old 0", "old 1"} & set(received) or not {"long 0", "long 1"} & set(received)
    assert [body for body in received if body in ("live 0", "live 1")] == ["live 0", "live 1"]


def _check_queue(broker: Broker, name: str) -> None:
    """Prove that what readers see of a lite topic has no hole."""
    topic = lite_batch(name, "").topic
    queue = broker.queues.queue(topic, 0)
    result = broker.pull(
        PullRequest(topic=topic, queue=0, queue_offset=queue.min_offset, messages_max=1000)
    )
    offsets = [
        decode_record(result.block.payload, at).queue_offset
        for at in starts_of(result.block.sizes).tolist()
    ]
    assert offsets == list(range(queue.min_offset, queue.end)), "a hole"


def _received(broker: Broker) -> list[str]:
    broker.sync_lite(
        LiteSync(
            group="g",
            client_id="c",
            topic="chats",
            action=LiteAction.REPLACE,
            names=("old", "long", "live"),
        )
    )
    received: list[str] = []
    while True:
        result = broker.receive(wanted())
        if not result.leases:
            return received
        received += bodies_of(result)
        broker.settler.ack("g", handles_of(result.leases))


def image_of(prepared_disk: SimulatedDisk, store: Keeping) -> Keeping:
    """Return a store of its own on a copy of a disk."""
    copy = prepared_disk.crash_image(random.Random(0), CrashMode.EVERYTHING)
    return Keeping(disk=copy, clock=store.clock, topics=store.topics)


def base_store() -> Keeping:
    store = new_store()
    store.disk = asyncio.run(prepared(store))
    return store


def test_the_sequence_ends_lite_topics_and_frees_a_name() -> None:
    store = base_store()
    _, acknowledged = asyncio.run(ended(store))

    assert acknowledged == ["long again 0", "old again 0", "old again 1"]
    assert not store.disk.exists("consumequeue/%25LITE%25chats%7Clong/0/00000000000000000000")
    broker = open_broker(store.disk, config=CONFIG, clock=store.clock, failpoints=Failpoints())
    # Its name was free; that of `long` was not, for a message had come again before.
    assert broker.queues.queue(lite_batch("old", "").topic, 0).min_offset == 0
    assert broker.queues.queue(lite_batch("long", "").topic, 0).min_offset == LONG
    _check(broker, acknowledged)
    broker.close()


def test_a_power_cut_at_any_sync_of_ending_loses_nothing_and_brings_nothing_back() -> None:
    base = base_store()
    total, _ = asyncio.run(ended(image_of(base.disk, base)))
    assert total > 25
    for cut_at in range(1, total + 1):
        store = image_of(base.disk, base)
        _, acknowledged = asyncio.run(ended(store, cut_at=cut_at))
        for modes, left in store.disk.crash_images(cut_at):
            print(f"cut at sync {cut_at} of {total}, {modes}, seed {cut_at}")
            checked(left, store, acknowledged)


def _fails_somewhere(spoil: Callable[[LocalEngine], None]) -> bool:
    base = base_store()
    total, _ = asyncio.run(ended(image_of(base.disk, base), spoil=spoil))
    for cut_at in range(1, total + 1):
        store = image_of(base.disk, base)
        _, acknowledged = asyncio.run(ended(store, cut_at=cut_at, spoil=spoil))
        for _, left in store.disk.crash_images(cut_at):
            try:
                checked(left, store, acknowledged)
            except (AssertionError, StoreDamaged):
                return True
    return False


def test_a_name_freed_before_a_checkpoint_without_it_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        QueueSet, "is_omitted", lambda self, topic, number: (topic, number) in self._left
    )
    monkeypatch.setattr(
        QueueSet, "drop", lambda self, topic, number: self._left.pop((topic, number))
    )

    def spoil(engine: LocalEngine) -> None:
        host = engine._host
        checkpoint = host.checkpoint

        async def until_cleaned() -> None:
            if host.broker.log.log_start == 0:
                await checkpoint()

        host.checkpoint = until_cleaned  # type: ignore[method-assign]

    assert _fails_somewhere(spoil)


def test_a_name_freed_while_the_front_says_where_it_begins_is_caught() -> None:
    def spoil(engine: LocalEngine) -> None:
        ends = engine._host.broker.liteends
        ends._begins_listed = set  # type: ignore[assignment]
        # As if it had been there still when the front was written.
        retention = engine._host.broker.retention
        store_start = retention.store_start
        place = (lite_batch("old", "").topic, 0)
        retention.store_start = lambda start, begins: store_start(start, {**begins, place: 3})  # type: ignore[method-assign]

    assert _fails_somewhere(spoil)


def test_an_end_that_is_nowhere_in_the_log_is_caught() -> None:
    def spoil(engine: LocalEngine) -> None:
        state = engine._host.broker.state

        class Silent:
            def commit(self, events: list[object]) -> None:
                for event in events:
                    state.apply(event, number=-1, at_ms=0)  # type: ignore[arg-type]

        engine._host.broker.liteends._recorder = Silent()  # type: ignore[assignment]

    assert _fails_somewhere(spoil)
