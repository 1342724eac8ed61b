"""Two brokers to mirror between, and `mq mirror` as a process. Judges nothing."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from mqclient import Admin, LitePullConsumer, Message

from apps.engine.config import EngineConfig
from apps.engine.local import LocalEngine
from apps.engine.types import CatalogSnapshot, Cleanup, GroupSpec, LiteModel, TopicSpec, TopicType
from tests.certificates import self_signed
from tests.process.product import SEGMENT_BYTES, Broker, free_port

END_S = 280
# A group in which the newest subscriber has a lite topic alone.
ALONE = "alone"
TOPICS = (
    TopicSpec(name="orders", queue_count=4, type=TopicType.FIFO),
    TopicSpec(name="mixed", queue_count=2),
    TopicSpec(name="alarms", queue_count=4, type=TopicType.PRIORITY),
    TopicSpec(name="shop%orders", queue_count=1),
    TopicSpec(name="inbox", queue_count=1, type=TopicType.LITE),
    TopicSpec(name="chats", queue_count=2, type=TopicType.LITE),
    TopicSpec(name="keyed", queue_count=1, cleanup=Cleanup.COMPACT),
)


class Side:
    """One broker with a gRPC door, plain and by TLS, and the topics of `TOPICS`."""

    def __init__(self, data: Path) -> None:
        """Start it."""
        self.broker = Broker(data)
        data.mkdir()
        asyncio.run(_prepare(data))
        self.grpc_port = free_port()
        self.tls_port = free_port()
        self.certificate, self._key = self_signed(data)
        self.start()
        self.url = f"http://127.0.0.1:{self.broker.port}"
        self.endpoint = f"127.0.0.1:{self.grpc_port}"
        self.tls_endpoint = f"localhost:{self.tls_port}"

    def start(self) -> None:
        """Start the broker on its ports."""
        self.broker.start(
            MQWEB_GRPC_PORT=str(self.grpc_port),
            MQWEB_GRPC_TLS_PORT=str(self.tls_port),
            MQWEB_GRPC_TLS_CERT=str(self.certificate),
            MQWEB_GRPC_TLS_KEY=str(self._key),
        )

    def count(self, topic: str = "orders") -> int:
        """Return how many messages a topic has had."""
        with Admin(self.url) as admin:
            return sum(queue.max_offset or 0 for queue in admin.describe_topic(topic).queues)

    def lites(self, parent: str) -> dict[str, int]:
        """Return how many messages each lite topic of a parent has had."""
        with Admin(self.url) as admin:
            return {one.name: one.max_offset for one in admin.lite_topics(parent)}

    def everything(self, topic: str = "orders") -> list[Message]:
        """Return all messages of a topic, each queue in its order."""
        found: list[Message] = []
        with LitePullConsumer(self.url) as reader:
            reader.assign(reader.fetch_queues(topic))
            count = self.count(topic)
            while len(found) < count:
                messages = reader.poll(END_S)
                assert messages, f"{len(found)} of {count} messages"
                found += messages
        return found


async def _prepare(data: Path) -> None:
    engine = await LocalEngine.open(
        data / "store", EngineConfig(segment_bytes=SEGMENT_BYTES, reserve_bytes=0)
    )
    engine.publish_catalog(
        CatalogSnapshot(
            version=1,
            topics={spec.name: spec for spec in TOPICS},
            groups={ALONE: GroupSpec(name=ALONE, lite_model=LiteModel.EXCLUSIVE)},
        )
    )
    await engine.close()


def start(*words: str, server: Side) -> "subprocess.Popen[bytes]":
    """Start `mq mirror` with these words beside a broker."""
    code = "import sys; from mqclient.cli import main; sys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", code, "mirror", *words],
        env={**os.environ, "MQWEB_URL": server.url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def end(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Wait for its end; return exit code and what it said."""
    _, said = process.communicate(timeout=END_S)
    return process.returncode, said.decode()
