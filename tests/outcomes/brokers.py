"""A run with one broker process and nothing else, which is killed, stopped and cut off.

Its database is not there: what is judged is the data plane. The clockwork's part is a client's.
"""

import asyncio
import signal
import threading
import time
from pathlib import Path

from django.conf import settings

from apps.bridge import control
from apps.bridge.remote import RemoteEngine
from apps.engine.config import EngineConfig
from apps.engine.failuretypes import RetryPolicy
from apps.engine.local import LocalEngine
from apps.engine.types import CatalogSnapshot, GroupSpec, TopicSpec
from tests.histories.faults import CUT, KILL
from tests.outcomes.calls import Reply
from tests.outcomes.field import (
    DEADLINE_S,
    FAILURES_MAX,
    LEASED,
    RETRY_DELAYS_MS,
    SENT_BACK,
    TOPICS,
    VARIABLES,
    Field,
)
from tests.process.product import SEGMENT_BYTES, Broker, Unanswered

_BROKER = "broker"
# The page cache of this one lies in its own process, so that a kill is a power cut.
VOLATILE = ("tests/process/volatile_broker.py",)


class BrokerField(Field):
    """A run around one broker process."""

    def __init__(self, directory: Path, seed: int, *command: str) -> None:
        """Make the store; `command` runs the broker, where not the product's."""
        super().__init__(directory, seed)
        self.broker = Broker(directory / "broker", *command)
        self._end = CUT if command == VOLATILE else KILL
        self.variables = dict(VARIABLES)
        self.broker.data.mkdir(parents=True)
        self._is_up = threading.Event()
        asyncio.run(_make_store(self.broker.data / "store"))

    def start(self) -> None:
        """Start it with short times."""
        self.broker.start(**self.variables)
        self._is_up.set()
        self.process(_BROKER, "started")

    def stop(self) -> None:
        """Stop it in order."""
        assert self.broker.stop() == 0
        self._is_up.clear()
        self.process(_BROKER, "ended")

    @property
    def store(self) -> Path:
        """Return where the broker's store is."""
        return self.broker.data / "store"

    def end(self) -> None:
        """Leave no process behind."""
        if self._is_up.is_set():
            self.broker.kill()

    def ask(self, method: str, path: str, document: object) -> Reply | None:
        """Make a request; None where the broker ended before it answered.

        One that is not there is waited for: a thousand connections refused show nothing.
        """
        self._is_up.wait(DEADLINE_S)
        try:
            return Reply(*self.broker.call(method, path, document))
        except Unanswered:
            return None

    def connect(self) -> RemoteEngine:
        """Return what the clockwork asks the broker by."""
        token = control.token_of(settings.SECRET_KEY)
        return RemoteEngine("127.0.0.1", self.broker.port, token=token)

    def kill(self) -> None:
        """Kill it and start it again; on a volatile disk that is a power cut."""
        self.nemesis(self._end, _BROKER)
        self._is_up.clear()
        self.broker.kill()
        self.process(_BROKER, "ended")
        self.start()

    def pause(self, seconds: float = 1.0) -> None:
        """Let it stand still for a while."""
        self.nemesis("pause", _BROKER)
        self.broker.signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.nemesis("resume", _BROKER)
        self.broker.signal(signal.SIGCONT)


async def _make_store(path: Path) -> None:
    """Make a store that knows topics and groups, as a broker leaves it behind when it stops."""
    topics = {name: TopicSpec(name=name, queue_count=1) for name in TOPICS}
    groups = {
        name: GroupSpec(
            name=name,
            retry_max=FAILURES_MAX,
            retry_policy=RetryPolicy.CUSTOM,
            retry_delays_ms=RETRY_DELAYS_MS,
        )
        for name in (LEASED, SENT_BACK)
    }
    engine = await LocalEngine.open(
        path, EngineConfig(segment_bytes=SEGMENT_BYTES, reserve_bytes=0)
    )
    engine.publish_catalog(CatalogSnapshot(version=1, topics=topics, groups=groups))
    await engine.close()
