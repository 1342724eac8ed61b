"""An engine with dead letters for tests: records of the product's codec, each sent again once."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from django.db import connection

from apps.deadletters.models import DeadLetter
from apps.deadletters.projection import DeadLetterProjector
from apps.engine.codec import layout
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.errors import EngineError, InvalidArgument, UnknownTopic
from apps.engine.failuretypes import Resend, ResendResult
from apps.engine.types import MessageBlock, PullRequest, PullResult, PullStatus, QueueRange
from tests.web.fake_engine import FakeEngine
from tests.web.group_values import NOW_MS

Answer = TypeVar("Answer")


class HandClock:
    """Both readings move only when the test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def wall_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return self.now_ms


class LetterEngine(FakeEngine):
    """Holds dead letters; sends one again once, to topics that are not `refused`."""

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[str, list[bytes]] = {}
        self.begins: dict[str, int] = {}
        self.resent: dict[tuple[str, int], str] = {}
        self.asked: list[tuple[str, list[int], str | None, str]] = []
        self.refused: set[str] = set()
        self.after_resend: Callable[[], None] = lambda: None
        self.error: EngineError | None = None
        self.pulls = 0

    def own_ranges(self, prefix: str) -> dict[str, list[QueueRange]]:
        return {
            topic: [
                QueueRange(
                    topic=topic,
                    queue=0,
                    min_offset=self.begins.get(topic, 0),
                    max_offset=len(records),
                )
            ]
            for topic, records in self.records.items()
            if topic.startswith(prefix)
        }

    async def pull(self, request: PullRequest) -> PullResult:
        self.pulls += 1
        records = self.records.get(request.topic)
        if records is None:
            raise UnknownTopic(request.topic)
        begin = self.begins.get(request.topic, 0)
        if request.queue_offset < begin:
            return self._answer(request, PullStatus.OFFSET_ILLEGAL, [], begin, begin)
        found: list[bytes] = []
        for record in records[request.queue_offset :][: request.messages_max]:
            if found and sum(map(len, found)) + len(record) > request.bytes_max:
                break
            found.append(record)
        status = PullStatus.FOUND if found else PullStatus.NO_NEW_MSG
        return self._answer(request, status, found, request.queue_offset + len(found), begin)

    def _answer(
        self,
        request: PullRequest,
        status: PullStatus,
        found: Sequence[bytes],
        next_offset: int,
        begin: int,
    ) -> PullResult:
        return PullResult(
            status=status,
            block=MessageBlock(
                topic=request.topic,
                queue=0,
                payload=b"".join(found),
                sizes=np.array([len(record) for record in found], dtype=np.int32),
            ),
            next_offset=next_offset,
            min_offset=begin,
            max_offset=len(self.records[request.topic]),
        )

    def resend(
        self, group: str, queue_offsets: Sequence[int], *, topic: str | None = None, by: str = ""
    ) -> list[ResendResult]:
        if self.error is not None:
            raise self.error
        if len(queue_offsets) > 1_000:
            raise InvalidArgument("at most 1000")
        self.asked.append((group, list(queue_offsets), topic, by))
        results = [self._resend(group, offset, topic) for offset in queue_offsets]
        self.after_resend()
        return results

    def _resend(self, group: str, queue_offset: int, topic: str | None) -> ResendResult:
        target = topic or "orders"
        if target in self.refused:
            return ResendResult(
                queue_offset=queue_offset, outcome=Resend.FAILED, detail=f"no topic {target}"
            )
        if (
            not self.begins.get(f"%DLQ%{group}", 0)
            <= queue_offset
            < len(self.records[f"%DLQ%{group}"])
        ):
            return ResendResult(queue_offset=queue_offset, outcome=Resend.GONE)
        if (group, queue_offset) in self.resent:
            return ResendResult(queue_offset=queue_offset, outcome=Resend.ALREADY)
        self.resent[group, queue_offset] = target
        return ResendResult(
            queue_offset=queue_offset,
            outcome=Resend.SENT,
            topic=target,
            queue=1,
            sent_offset=1_000 + queue_offset,
        )

    def put_back(self, group: str, count: int) -> None:
        """Be the log of an earlier moment, when a group had so many dead letters."""
        topic = f"%DLQ%{group}"
        del self.records[topic][count:]
        if not count:
            del self.records[topic]

    def bury(self, group: str, count: int = 1, **said: Any) -> None:
        """Add dead letters of a group; see `dead_record`."""
        records = self.records.setdefault(f"%DLQ%{group}", [])
        for _ in range(count):
            records.append(dead_record(group, len(records), **said))


def dead_record(
    group: str,
    queue_offset: int,
    *,
    body: bytes = b"hello",
    origin: str = "orders",
    reason: str = "boom",
    keys: str = "k1 k2",
    died_ms: int = NOW_MS,
    **others: str,
) -> bytes:
    """Build the record of a dead letter as the engine stores it."""
    history = [[number, died_ms - 1_000, reason, "c@1"] for number in range(1, 18)]
    said = {
        "TAGS": "red",
        "KEYS": keys,
        "UNIQ_KEY": f"ID{queue_offset}",
        "RETRY_TOPIC": origin,
        "DLQ_ORIGIN_TOPIC": origin,
        "DLQ_ORIGIN_MESSAGE_ID": f"ID{queue_offset}",
        "ORIGIN_QUEUE": "3",
        "ORIGIN_OFFSET": str(100 + queue_offset),
        "RETRY_HISTORY": json.dumps(history),
        **others,
    }
    record = bytearray(
        encode_record(
            topic=f"%DLQ%{group}".encode(),
            queue=0,
            body=body,
            properties=encode_properties({name: text for name, text in said.items() if text}),
            born_time_ms=died_ms - 60_000,
            store_time_ms=died_ms,
        )
    )
    _stamp(record, "queue_offset", queue_offset)
    _stamp(record, "reconsume_times", 17)
    return bytes(record)


def _stamp(record: bytearray, name: str, value: int) -> None:
    header = np.frombuffer(record, dtype=layout.RECORD_HEADER, count=1)
    header[name] = value


async def in_thread(work: Callable[[], Answer]) -> Answer:
    """Carry out database work off the loop, and keep no connection for it."""

    def carried_out() -> Answer:
        try:
            return work()
        finally:
            connection.close()

    return await asyncio.to_thread(carried_out)


async def in_database(work: Callable[[], object]) -> None:
    await in_thread(work)


def project(engine: LetterEngine, projector: DeadLetterProjector | None = None) -> bool:
    """Give the engine's letters rows; say whether there was anything to look at."""
    projector = projector or DeadLetterProjector(HandClock())
    look = projector.look(engine)  # type: ignore[arg-type]
    if look is None:
        return False
    asyncio.run(projector.project(look, engine, in_database))  # type: ignore[arg-type]
    return True


def states(group: str = "g") -> list[str]:
    """Return the states of a group's letters, by offset."""
    rows = DeadLetter.objects.filter(group=group).order_by("queue_offset")
    return list(rows.values_list("state", flat=True))
