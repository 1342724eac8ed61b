"""A whole broker on a simulated disk, with short words for what clients do to it."""

import numpy as np

from apps.engine.broker.core import Broker, open_broker
from apps.engine.caretypes import (
    CareAct,
    CareRequest,
    CareResult,
    QueueReset,
    ResetRequest,
    ResetResult,
)
from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.failpoints import Failpoints
from apps.engine.grouptypes import BlockedHead, HeartbeatRequest, QueuePlace, Subscription
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import (
    CatalogSnapshot,
    GroupSpec,
    MessageModel,
    OffsetCommit,
    PullRequest,
    PullResult,
    ReceiveRequest,
    ReceiveResult,
    RecordBatch,
    TopicSpec,
)

CONFIG = EngineConfig(
    segment_bytes=1 << 20,
    batch_bytes_max=1 << 18,
    body_bytes_max=4_096,
    consume_queue_file_entries=64,
    reserve_bytes=0,
)


class BrokerBench:
    """Topics `orders`, of two queues, and `bills`, of one; group `g`, as it is set up."""

    def __init__(self, *groups: GroupSpec, orders_queue_count: int = 2) -> None:
        """Open a new store."""
        self.clock = ManualClock()
        self.disk = SimulatedDisk()
        self.orders_queue_count = orders_queue_count
        self.open()
        self.publish(*groups)

    def open(self) -> None:
        """Open the store as the disk has it."""
        self.broker: Broker = open_broker(
            self.disk, config=CONFIG, clock=self.clock, failpoints=Failpoints()
        )

    def restart(self) -> None:
        """Stop cleanly and open again."""
        self.broker.close()
        self.open()

    def publish(self, *groups: GroupSpec, deleted: str = "") -> None:
        """Let these be the groups that were decided about, and both topics be there but one."""
        topics = {"orders": self.orders_queue_count, "bills": 1}
        topics.pop(deleted, None)
        self.broker.publish_catalog(
            CatalogSnapshot(
                version=self.broker.catalog.snapshot.version + 1,
                topics={name: TopicSpec(name=name, queue_count=n) for name, n in topics.items()},
                groups={spec.name: spec for spec in groups},
            )
        )

    def send(self, count: int, *, queue: int = 0, topic: str = "orders") -> None:
        """Store messages whose bodies are their queue offsets, and show them."""
        first = self.broker.queues.queue(topic, queue).end
        records = [
            encode_record(topic=topic.encode(), queue=queue, body=str(first + n).encode())
            for n in range(count)
        ]
        batch = RecordBatch(
            topic=topic,
            queue=queue,
            payload=bytearray(b"".join(records)),
            sizes=np.array([len(record) for record in records], dtype=np.int32),
        )
        self.broker.appender.write(self.broker.appender.check([batch]))
        self.sync()

    def sync(self) -> None:
        """Make everything durable, and show it."""
        self.broker.log.sync()
        self.broker.show_synced()

    def pull(
        self, offset: int, *, client_id: str = "a", most: int = 32, **what: object
    ) -> PullResult:
        """Pull from queue 0 of `orders` for group `g`, unless told otherwise."""
        asked: dict[str, object] = {"topic": "orders", "queue": 0, "group": "g"}
        asked |= {"queue_offset": offset, "messages_max": most, "client_id": client_id}
        return self.broker.pull(PullRequest(**(asked | what)))  # type: ignore[arg-type]

    def receive(self, *, client_id: str = "a", most: int = 32, **what: object) -> ReceiveResult:
        """Receive from `orders` for group `g`, unless told otherwise."""
        asked: dict[str, object] = {"topics": ("orders",), "group": "g"}
        asked |= {"messages_max": most, "client_id": client_id}
        return self.broker.receive(ReceiveRequest(**(asked | what)))  # type: ignore[arg-type]

    def commit(
        self,
        offset: int,
        *,
        client_id: str = "",
        generation: int | None = None,
        epoch: int | None = None,
        queue: int = 0,
    ) -> None:
        """Commit for group `g` in `orders`, fenced as the engine does it."""
        commits = [OffsetCommit(topic="orders", queue=queue, queue_offset=offset, epoch=epoch)]
        self.broker.fencing.check_commit("g", commits, client_id=client_id, generation=generation)
        self.broker.offsets.commit("g", commits, client_id=client_id)

    def join(
        self,
        client_id: str,
        *,
        model: MessageModel = MessageModel.CLUSTERING,
        blocked: tuple[BlockedHead, ...] = (),
    ) -> int:
        """Send a heartbeat of a member of group `g` that wants `orders`; return its generation."""
        request = HeartbeatRequest(
            group="g",
            client_id=client_id,
            subscriptions=(Subscription(topic="orders"),),
            model=model,
            blocked=blocked,
        )
        member = self.broker.membership.heartbeat(request)
        return self.broker.membership.answer(member).generation

    def owner(self, queue: int = 0) -> str | None:
        """Return whose a queue of `orders` is by assignment."""
        return self.broker.assigner.owner("g", "orders", queue)

    def lock(self, client_id: str, queue: int = 0) -> int:
        """Lock a queue of `orders` for group `g`; return the epoch."""
        places = [QueuePlace(topic="orders", queue=queue)]
        (grant,) = self.broker.locks.acquire("g", client_id, places).locked
        return grant.epoch

    def attend(
        self, act: CareAct, expected_offset: int | None = None, *, queue: int = 0, **what: str
    ) -> CareResult:
        """Do something about a queue of `orders` for group `g`, as the verb does; show it."""
        care = self.broker.queuecare
        asked: dict[str, str] = {"group": "g", "topic": "orders", "by": "ann", "reason": "poison"}
        request = CareRequest(
            act=act, queue=queue, expected_offset=expected_offset, **(asked | what)
        )
        care.check(request)
        result = care.done_before(request)
        if result is None:
            match act:
                case CareAct.SKIP:
                    result = care.skip(request)
                case CareAct.PARK:
                    result = care.park(request, care.read(request, wait=True))
                case _:
                    result = care.suspend(request)
        self.sync()
        return result

    def reset(
        self, target: int, *, expected: int, slack: int = 0, reset_id: str = "r", queue: int = 0
    ) -> ResetResult:
        """Have group `g` go on elsewhere in a queue of `orders`; show it."""
        one = QueueReset(
            topic="orders",
            queue=queue,
            target=target,
            expected_min=expected,
            expected_max=expected + slack,
        )
        request = ResetRequest(group="g", reset_id=reset_id, queues=(one,))
        result = self.broker.resets.reset(request)
        self.sync()
        return result

    def committed(self, queue: int = 0) -> int:
        """Return how far group `g` is in a queue of `orders`."""
        return self.broker.state.progress["g", "orders", queue].floor


def offsets_of(result: PullResult) -> list[int]:
    """Return the queue offsets of the messages pulled, as their bodies say."""
    block = result.block
    records = [decode_record(block.payload, start) for start in starts_of(block.sizes).tolist()]
    assert [int(record.body) for record in records] == [r.queue_offset for r in records]
    return [record.queue_offset for record in records]
