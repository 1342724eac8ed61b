"""An engine that is only counters, a viewer without a server, and a clock set by hand."""

import asyncio
import json
from collections import Counter
from collections.abc import Collection
from typing import Any, cast
from urllib.parse import urlencode

from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter

from apps.console.routing import websocket_urlpatterns
from apps.engine.api import EngineAPI
from apps.engine.delaytypes import DelayLevelState, DelayStatus, LevelsDelivered
from apps.engine.errors import UnknownTopic
from apps.engine.grouptypes import (
    GroupHistory,
    LockRefused,
    LockTransition,
    MemberState,
    QueueBacklog,
    QueueLockState,
    Rebalance,
)
from apps.engine.litetypes import LiteBacklog, LiteTotal
from apps.engine.transactiontypes import TransactionStatus
from apps.engine.types import (
    CatalogSnapshot,
    ClientSeen,
    EngineStatus,
    GroupProgress,
    QueueRange,
    RecoveryReport,
    TopicSpec,
    TopicType,
)
from tests.web.console.live import Held

# What a hostile producer would call a topic if the door let it.
POLYGLOT = "'\"><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}%3C/a|javascript:"


class HandClock:
    """Both readings move only when the test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def wall_ms(self) -> int:
        return 1_763_000_000_000 + self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


class FakeEngine:
    """Topics, offsets and progress as plain numbers; counts how often each verb is called."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.specs: dict[str, TopicSpec] = {}
        self.max_offsets: dict[tuple[str, int], int] = {}
        self.progress: dict[tuple[str, str, int], tuple[int, int]] = {}
        self.unmade: set[str] = set()
        self.seen: list[ClientSeen] = []
        self.states: list[MemberState] = []
        self.left: list[QueueBacklog] = []
        self.left_in_lites: list[LiteBacklog] = []
        self.in_lites: dict[str, LiteTotal] = {}
        self.locks: list[QueueLockState] = []
        self.transitions: list[LockTransition] = []
        self.shared_out: list[Rebalance] = []
        self.delivered = 0
        self.levels: list[DelayLevelState] = []
        self.delays = DelayStatus()
        self.transactions = TransactionStatus()

    @property
    def api(self) -> EngineAPI:
        """Return this engine as the feed sees it; the verbs it lacks are not the feed's."""
        return cast("EngineAPI", self)

    def add_topic(
        self, name: str, *, queue_count: int = 1, kind: TopicType = TopicType.MIXED
    ) -> None:
        self.specs[name] = TopicSpec(name=name, queue_count=queue_count, type=kind)
        for queue in range(queue_count):
            self.max_offsets[name, queue] = 0

    def send(self, topic: str, queue: int, count: int = 1) -> None:
        self.max_offsets[topic, queue] += count

    def consume(self, group: str, topic: str, queue: int, *, upto: int, in_flight: int = 0) -> None:
        before, _ = self.progress.get((group, topic, queue), (0, 0))
        self.delivered += max(0, upto - before)
        self.progress[group, topic, queue] = (upto, in_flight)

    @property
    def catalog(self) -> CatalogSnapshot:
        self.calls["catalog"] += 1
        return CatalogSnapshot(version=1, topics=self.specs)

    def queue_ranges(self, topic: str) -> list[QueueRange]:
        self.calls["queue_ranges"] += 1
        if topic in self.unmade:
            raise UnknownTopic(topic)
        return [
            QueueRange(topic=name, queue=queue, min_offset=0, max_offset=max_offset)
            for (name, queue), max_offset in self.max_offsets.items()
            if name == topic
        ]

    def topic_ranges(self, topics: Collection[str] | None = None) -> dict[str, list[QueueRange]]:
        self.calls["topic_ranges"] += 1
        return {
            topic: [
                QueueRange(topic=name, queue=queue, min_offset=0, max_offset=max_offset)
                for (name, queue), max_offset in self.max_offsets.items()
                if name == topic
            ]
            for topic in self.specs
            if topic not in self.unmade and (topics is None or topic in topics)
        }

    def group_progress(self, group: str | None = None) -> list[GroupProgress]:
        self.calls["group_progress"] += 1
        return [
            GroupProgress(
                group=name,
                topic=topic,
                queue=queue,
                committed=committed,
                delivered=committed + in_flight,
                in_flight=in_flight,
                max_offset=self.max_offsets[topic, queue],
            )
            for (name, topic, queue), (committed, in_flight) in self.progress.items()
        ]

    def clients(self, group: str | None = None) -> list[ClientSeen]:
        self.calls["clients"] += 1
        return [client for client in self.seen if group in (None, client.group)]

    def members(self, group: str | None = None) -> list[MemberState]:
        self.calls["members"] += 1
        return [state for state in self.states if group in (None, state.group)]

    def backlog(self, group: str | None = None) -> list[QueueBacklog]:
        self.calls["backlog"] += 1
        return [row for row in self.left if group in (None, row.group)]

    def lite_totals(self) -> dict[str, LiteTotal]:
        self.calls["lite_totals"] += 1
        return self.in_lites

    def lite_backlog(self, group: str | None = None) -> list[LiteBacklog]:
        self.calls["lite_backlog"] += 1
        return self.left_in_lites

    def queue_locks(self, group: str | None = None) -> list[QueueLockState]:
        self.calls["queue_locks"] += 1
        return [lock for lock in self.locks if group in (None, lock.group)]

    def lock_refusals(self, since_ms: int = 0) -> list[LockRefused]:
        self.calls["lock_refusals"] += 1
        return []

    def history(self, after: int) -> GroupHistory:
        """Give at most two lines at once, so that a reader must ask again."""
        self.calls["history"] += 1
        lines = sorted(line.number for line in (*self.transitions, *self.shared_out))
        chosen = [number for number in lines if number > after][:2]
        return GroupHistory(
            transitions=tuple(line for line in self.transitions if line.number in chosen),
            rebalances=tuple(line for line in self.shared_out if line.number in chosen),
            last=max(chosen, default=after),
        )

    def delay_levels(self) -> LevelsDelivered:
        self.calls["delay_levels"] += 1
        return LevelsDelivered(delivered=0, more=False, levels=tuple(self.levels))

    def delay_status(self) -> DelayStatus:
        self.calls["delay_status"] += 1
        return self.delays

    def transaction_status(self) -> TransactionStatus:
        self.calls["transaction_status"] += 1
        return self.transactions

    def status(self) -> EngineStatus:
        self.calls["status"] += 1
        appended = sum(self.max_offsets.values())
        return EngineStatus(
            store_id="5f0c8a52",
            epoch=7,
            log_start=0,
            written_offset=appended * 300,
            synced_offset=appended * 300,
            appended_messages=appended,
            appended_bytes=appended * 300,
            delivered_messages=self.delivered,
            settled_messages=self.delivered,
            parked=3,
            leases=0,
            syncs=41,
            free_bytes=41_875_931_136,
            recovery=RecoveryReport(
                epoch=7,
                clean=False,
                scanned_bytes=18_432,
                scanned_records=61,
                cut_bytes=88,
                cut_reason="record ends after the log",
                log_end=0,
            ),
        )


class Viewer:
    """One browser's socket on one view, driven through ASGI alone."""

    def __init__(self, view: str = "overview", *, reads: str = "") -> None:
        self.held = Held()
        scope = {
            "type": "websocket",
            "path": "/ws/live/",
            "query_string": urlencode({"view": view}).encode(),
            "headers": [(b"accept-language", reads.encode())],
            "subprotocols": [],
        }
        communicator: Any = ApplicationCommunicator  # It has no types.
        self.socket = communicator(URLRouter(websocket_urlpatterns), scope)

    async def arrive(self) -> None:
        """Shake hands, and wait like every viewer for what comes."""
        await self.socket.send_input({"type": "websocket.connect"})
        assert (await self.socket.receive_output())["type"] == "websocket.accept"
        await settle()

    async def text(self) -> str:
        """Return the next frame as it came."""
        event = await self.socket.receive_output()
        assert event["type"] == "websocket.send", event
        return str(event["text"])

    async def frame(self) -> dict[str, Any]:
        """Take the next frame, and return all of the view as it is then."""
        return self.held.take(json.loads(await self.text()))

    async def leave(self) -> None:
        """Go away, and see that nothing is left running."""
        await self.socket.send_input({"type": "websocket.disconnect", "code": 1001})
        await self.socket.wait()


async def settle() -> None:
    """Let every task that can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)
