"""A broker with messages that fail or wait in levels, and short words for what is done to them."""

from collections.abc import Sequence

import numpy as np

from apps.engine.broker.burying import Burial
from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import Record, decode_record, encode_record
from apps.engine.failuretypes import FailedMessage, ResendResult, ReturnResult
from apps.engine.types import Appended, PullRequest, RecordBatch
from tests.engine.broker.brokerbench import BrokerBench

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


class FailureBench(BrokerBench):
    """A broker bench that delays, sends back, buries and sends again."""

    def put(
        self, *bodies: bytes, topic: str = "orders", queue: int = 0, **properties: str
    ) -> Appended:
        """Store messages the way a client's go, each with these properties; show them."""
        section = encode_properties(properties)
        records = [
            encode_record(topic=topic.encode(), queue=queue, body=body, properties=section)
            for body in bodies
        ]
        batch = RecordBatch(
            topic=topic,
            queue=queue,
            payload=bytearray(b"".join(records)),
            sizes=np.array([len(record) for record in records], dtype=np.int32),
        )
        (routed,) = self.broker.intake.route(self.broker.appender.check([batch]))
        stored, _ = self.broker.appender.write(routed.parts)
        answer = routed.answer(stored)
        self.sync()
        return answer

    def deliver(self, messages_max: int = 1_000) -> int:
        """Deliver what is due in all levels, as the verb does; show it."""
        schedule, count = self.broker.schedule, 0
        self.broker.delays.guard.look()
        for queue in schedule.queues():
            while (due := schedule.due(queue, messages_max=messages_max, wait=True)) is not None:
                count += schedule.deliver(due)
        self.sync()
        return count

    def send_back(
        self,
        *offsets: int,
        topic: str = "orders",
        queue: int = 0,
        group: str = "g",
        client_id: str = "",
        delay_level: int | None = None,
        delay_ms: int | None = None,
        reason: str = "",
        generation: int | None = None,
        epoch: int | None = None,
    ) -> list[ReturnResult]:
        """Send messages back, as the verb does; show their copies."""
        request = self.broker.sendback.begin(
            group,
            [
                FailedMessage(topic=topic, queue=queue, queue_offset=offset, epoch=epoch)
                for offset in offsets
            ],
            client_id=client_id,
            delay_level=delay_level,
            delay_ms=delay_ms,
            reason=reason,
            generation=generation,
        )
        for place in request.left:
            while len(request.left[place]):
                read = self.broker.sendback.read(request, place, wait=True)
                self.broker.sendback.store(request, place, read)
        self.sync()
        return request.results

    def resend(
        self, offsets: Sequence[int], *, topic: str | None = None, by: str = "ann"
    ) -> list[ResendResult]:
        """Send dead letters of group `g` again, as the verb does; show them."""
        deadletters = self.broker.deadletters
        request = deadletters.begin("g", offsets, topic=topic, by=by)
        while len(request.left):
            deadletters.store(request, deadletters.read(request, wait=True))
        self.sync()
        return request.answer()

    def bury(self) -> int:
        """Bury what failed for the last time, as the engine does by itself; show it."""
        self.broker.expire()
        burying, count = self.broker.burying, 0
        while (burial := burying.next()) is not None:
            count += self.bury_one(burial)
        self.sync()
        return count

    def bury_one(self, burial: Burial) -> int:
        """Carry out one burial."""
        burying, count = self.broker.burying, 0
        while len(burial.offsets):
            count += len(burying.bury(burial, burying.read(burial, wait=True)))
        return count

    def records(self, topic: str = "orders", queue: int = 0) -> list[Record]:
        """Return everything a queue shows."""
        request = PullRequest(topic=topic, queue=queue, queue_offset=0, messages_max=10_000)
        if self.broker.queues.find(topic, queue) is None:
            return []
        block = self.broker.pull(request).block
        return [decode_record(block.payload, start) for start in starts_of(block.sizes).tolist()]

    def bodies(self, topic: str = "orders", queue: int = 0) -> list[bytes]:
        """Return the bodies of everything a queue shows."""
        return [record.body for record in self.records(topic, queue)]
