"""A broker with a parent of lite topics on a simulated disk, and one client of its group `g`."""

from apps.engine.broker.core import Broker, open_broker
from apps.engine.config import EngineConfig
from apps.engine.failpoints import Failpoints
from apps.engine.litetypes import LiteAction, LiteSync
from apps.engine.testing.contracts.lite import lite_batch
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import (
    CatalogSnapshot,
    GroupSpec,
    ReceiveRequest,
    ReceiveResult,
    TopicSpec,
    TopicType,
)

HOUR_MS = 3_600_000
CHATS = TopicSpec(name="chats", queue_count=4, type=TopicType.LITE, lite_ttl_ms=HOUR_MS)
_CONFIG = EngineConfig(
    segment_bytes=1 << 20,
    batch_bytes_max=65_536,
    body_bytes_max=16_384,
    consume_queue_file_entries=64,
    reserve_bytes=0,
)


def opened(disk: SimulatedDisk, clock: ManualClock) -> Broker:
    """Open a store, a new one or one that was opened before."""
    return open_broker(disk, config=_CONFIG, clock=clock, failpoints=Failpoints())


def publish(broker: Broker, *topics: TopicSpec, groups: tuple[GroupSpec, ...] = ()) -> None:
    """Publish a catalog of nothing else."""
    broker.publish_catalog(
        CatalogSnapshot(
            version=broker.catalog.snapshot.version + 1,
            topics={topic.name: topic for topic in topics},
            groups={group.name: group for group in groups},
        )
    )


def send(broker: Broker, name: str, *bodies: str) -> None:
    """Send messages to a lite topic, and have them shown."""
    broker.appender.write(broker.appender.check([lite_batch(name, *bodies)]))
    broker.log.sync()
    broker.show_synced()


def subscribe(broker: Broker, *names: str, group: str = "g", client_id: str = "c") -> None:
    """Add lite topics to a client's set."""
    broker.sync_lite(
        LiteSync(
            group=group, client_id=client_id, topic="chats", action=LiteAction.ADD, names=names
        )
    )


def receive(broker: Broker, *, most: int = 32, client_id: str = "c") -> ReceiveResult:
    """Hand out messages of a client's set."""
    return broker.receive(
        ReceiveRequest(
            group="g", topics=("chats",), client_id=client_id, messages_max=most, is_lite=True
        )
    )


def end_all(broker: Broker) -> None:
    """Look through the lite topics, and end those whose time is over."""
    while broker.expire_lite():
        pass
