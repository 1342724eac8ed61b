"""Random operations on the real broker and on the model, with crashes; they must never disagree."""

import copy
import random
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from apps.engine.broker.core import Broker, open_broker
from apps.engine.caretypes import CareAct, CareRequest, QueueReset, ResetRequest
from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.errors import HeadMoved, NotOrdered
from apps.engine.failpoints import Failpoints
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.model import Model
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import (
    CatalogSnapshot,
    OffsetCommit,
    PullRequest,
    PullStatus,
    ReceiveRequest,
    RecordBatch,
    Settled,
    TopicSpec,
)

CONFIG = EngineConfig(
    segment_bytes=16_384,
    batch_bytes_max=8_192,
    body_bytes_max=4_096,
    consume_queue_file_entries=16,
    reserve_bytes=0,
)
TOPICS = {"a": 2, "b": 1}
PLACES = [(topic, queue) for topic, count in TOPICS.items() for queue in range(count)]
GROUPS = ["g", "h"]
place = st.sampled_from(PLACES)
group = st.sampled_from(GROUPS)


def as_batch(topic: str, queue: int, bodies: list[bytes]) -> RecordBatch:
    records = [encode_record(topic=topic.encode(), queue=queue, body=body) for body in bodies]
    return RecordBatch(
        topic=topic,
        queue=queue,
        payload=bytearray(b"".join(records)),
        sizes=np.array([len(record) for record in records], dtype=np.int32),
    )


class BrokerMachine(RuleBasedStateMachine):
    """One store, its model, and the model as it was at the last sync."""

    @initialize(seed=st.integers(0, 1 << 32))
    def start(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.disk = SimulatedDisk()
        self.model = Model()
        self.tokens: list[tuple[str, str, int, str, list[int]]] = []
        self.reset_count = 0
        self.broker = self.opened()
        self.broker.publish_catalog(
            CatalogSnapshot(
                version=1,
                topics={name: TopicSpec(name=name, queue_count=n) for name, n in TOPICS.items()},
            )
        )
        self.sync()

    def opened(self) -> Broker:
        return open_broker(self.disk, config=CONFIG, clock=self.clock, failpoints=Failpoints())

    @property
    def now(self) -> int:
        return self.clock.monotonic_ms()

    @rule(where=place, bodies=st.lists(st.binary(max_size=300), min_size=1, max_size=12))
    def send(self, where: tuple[str, int], bodies: list[bytes]) -> None:
        checked = self.broker.appender.check([as_batch(*where, bodies)])
        (appended,), _ = self.broker.appender.write(checked)
        assert appended.queue_offset == self.model.send(*where, bodies)

    @rule()
    def sync(self) -> None:
        self.broker.log.sync()
        self.broker.show_synced()
        self.model.show_all()
        self.durable = copy.deepcopy(self.model)

    @rule(ms=st.integers(1, 3000))
    def let_time_pass(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule(group=group, where=place, most=st.integers(1, 8), invisible=st.integers(10, 2000))
    def receive(self, group: str, where: tuple[str, int], most: int, invisible: int) -> None:
        topic = where[0]
        result = self.broker.receive(
            ReceiveRequest(group=group, topics=(topic,), messages_max=most, invisible_ms=invisible)
        )
        queues = range(TOPICS[topic])
        could = sum(self.model.available(group, topic, q, now_ms=self.now) for q in queues)
        assert sum(len(lease.block) for lease in result.leases) == min(most, could)
        for lease in result.leases:
            block = lease.block
            records = [decode_record(block.payload, s) for s in starts_of(block.sizes).tolist()]
            offsets = [record.queue_offset for record in records]
            self.model.handed_out(
                group,
                block.topic,
                block.queue,
                token=lease.token,
                attempt=lease.attempt,
                offsets=offsets,
                bodies=[record.body for record in records],
                now_ms=self.now,
                due_ms=self.now + invisible,
            )
            self.tokens.append((group, block.topic, block.queue, lease.token, offsets))

    def chosen(self, data: Any) -> tuple[str, str, int, str, int]:
        group, topic, queue, token, offsets = data.draw(st.sampled_from(self.tokens))
        return group, topic, queue, token, data.draw(st.sampled_from(offsets))

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def ack_one(self, data: Any) -> None:
        group, topic, queue, token, offset = self.chosen(data)
        (result,) = self.broker.settler.ack(group, [f"{token}:{offset}"])
        expected = self.model.ack(group, topic, queue, offset, token=token, now_ms=self.now)
        if expected != "again":
            assert result.outcome == expected

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def ack_all_of_a_lease(self, data: Any) -> None:
        group, topic, queue, token, offsets = data.draw(st.sampled_from(self.tokens))
        held = self.model.holders(group, topic, queue, token=token)
        (result,) = self.broker.settler.ack(group, [f"{token}:{offsets[0]}-{offsets[-1]}"])
        outcomes = {
            self.model.ack(group, topic, queue, offset, token=token, now_ms=self.now)
            for offset in held
        }
        if outcomes:
            assert {result.outcome} == outcomes

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), delay=st.integers(0, 1500))
    def nack_one(self, data: Any, delay: int) -> None:
        group, topic, queue, token, offset = self.chosen(data)
        (result,) = self.broker.settler.nack(
            group, [f"{token}:{offset}"], delay_ms=delay, reason="r"
        )
        expected = self.model.nack(
            group, topic, queue, offset, token=token, now_ms=self.now, due_ms=self.now + delay
        )
        assert (result.outcome == Settled.OK) == (expected == "ok")

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), invisible=st.integers(10, 2000))
    def extend_one(self, data: Any, invisible: int) -> None:
        group, topic, queue, token, offset = self.chosen(data)
        handle = f"{token}:{offset}"
        (result,) = self.broker.settler.extend(group, [handle], invisible_ms=invisible)
        new_token = result.handle.rpartition(":")[0]
        expected = self.model.extend(
            group,
            topic,
            queue,
            offset,
            token=token,
            new_token=new_token,
            now_ms=self.now,
            due_ms=self.now + invisible,
        )
        assert (result.outcome == Settled.OK) == (expected == "ok")
        if new_token:
            self.tokens.append((group, topic, queue, new_token, [offset]))

    @rule(data=st.data(), group=group, where=place)
    def commit(self, data: Any, group: str, where: tuple[str, int]) -> None:
        offset = data.draw(st.integers(0, self.model.visible.get(where, 0)))
        commit = OffsetCommit(topic=where[0], queue=where[1], queue_offset=offset)
        self.broker.offsets.commit(group, [commit])
        self.model.commit(group, *where, offset)

    @rule(group=group, where=place, is_parked=st.booleans())
    def pass_the_head(self, group: str, where: tuple[str, int], is_parked: bool) -> None:
        care = self.broker.queuecare
        head = self.model.of(group, *where).committed
        act = CareAct.PARK if is_parked else CareAct.SKIP
        request = self.care(act, group, where, head)
        if head >= self.model.visible.get(where, 0):
            with pytest.raises((HeadMoved, NotOrdered)):
                care.done_before(request)
            return
        with pytest.raises(NotOrdered):
            care.done_before(request)
        # The groups read in no order here, where more than the head may be out: it is harder.
        if is_parked:
            care.park(request, care.read(request, wait=True))
        else:
            care.skip(request)
        assert self.model.skip(group, *where) == head
        if (view := self.model.of(group, *where)).committed > head + 1:
            assert view.committed in (view.cursor, *view.handed)

    @rule(group=group, where=place)
    def suspend_or_resume(self, group: str, where: tuple[str, int]) -> None:
        is_suspended = (group, *where) in self.model.suspended
        act = CareAct.RESUME if is_suspended else CareAct.SUSPEND
        request = self.care(act, group, where, None)
        assert self.broker.queuecare.done_before(request) is None
        self.broker.queuecare.suspend(request)
        self.model.suspended ^= {(group, *where)}

    def care(
        self, act: CareAct, group: str, where: tuple[str, int], offset: int | None
    ) -> CareRequest:
        topic, queue = where
        return CareRequest(act=act, group=group, topic=topic, queue=queue, expected_offset=offset)

    @rule(data=st.data(), group=group, where=place)
    def reset(self, data: Any, group: str, where: tuple[str, int]) -> None:
        target = data.draw(st.integers(0, self.model.visible.get(where, 0)))
        before = self.model.of(group, *where).committed
        one = QueueReset(
            topic=where[0],
            queue=where[1],
            target=target,
            expected_min=before,
            expected_max=before,
        )
        self.reset_count += 1
        request = ResetRequest(group=group, reset_id=f"r{self.reset_count}", queues=(one,))
        (found,) = self.broker.resets.reset(request).queues
        assert (found.before, found.after) == (before, target)
        self.model.commit(group, *where, target)

    @rule(data=st.data(), where=place, most=st.integers(1, 20))
    def pull(self, data: Any, where: tuple[str, int], most: int) -> None:
        visible = self.model.visible.get(where, 0)
        start = data.draw(st.integers(0, visible + 1))
        result = self.broker.pull(
            PullRequest(topic=where[0], queue=where[1], queue_offset=start, messages_max=most)
        )
        assert (result.min_offset, result.max_offset) == (0, visible)
        if start > visible:
            assert (result.status, result.next_offset) == (PullStatus.OFFSET_ILLEGAL, visible)
            return
        expected = self.model.queues.get(where, [])[start : min(start + most, visible)]
        starts = starts_of(result.block.sizes).tolist()
        assert [decode_record(result.block.payload, s).body for s in starts] == expected
        assert result.next_offset == start + len(expected)
        assert result.status == (PullStatus.FOUND if expected else PullStatus.NO_NEW_MSG)

    @rule()
    def checkpoint(self) -> None:
        self.broker.checkpoint()
        self.model.show_all()
        self.durable = copy.deepcopy(self.model)

    @rule()
    def stop_cleanly_and_start(self) -> None:
        self.broker.close()
        self.after_start()
        assert self.broker.log.recovery.clean

    @rule()
    def kill_and_start(self) -> None:
        self.disk = self.disk.crash_image(self.rng, "everything")
        self.after_start()

    @rule()
    def cut_the_power_and_start(self) -> None:
        self.disk = self.disk.crash_image(self.rng, "nothing")
        self.model = copy.deepcopy(self.durable)
        self.after_start()

    def after_start(self) -> None:
        self.broker = self.opened()
        self.model.show_all()
        self.durable = copy.deepcopy(self.model)

    @invariant()
    def progress_agrees(self) -> None:
        if not hasattr(self, "broker"):
            return
        for found in self.broker.offsets.progress(None):
            view = self.model.of(found.group, found.topic, found.queue)
            assert (found.committed, found.delivered) == (view.committed, view.cursor)


BrokerMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, print_blob=True
)
TestBrokerAgainstModel = BrokerMachine.TestCase
