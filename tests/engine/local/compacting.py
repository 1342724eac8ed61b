"""A store with a compacted topic, and what must be true of it whatever happened."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import KEYS
from apps.engine.codec.record import Record, decode_record
from apps.engine.local import LocalEngine
from apps.engine.types import AckMode, Cleanup, PullRequest, PullStatus, TopicSpec
from tests.engine.local.keeping import CONFIG, HOUR_MS, Keeping, batch

TOMBSTONE_MS = 24 * HOUR_MS


def compacting() -> Keeping:
    """Return a store with a compacted topic `t` of two queues, where rounds are run by hand."""
    spec = TopicSpec(name="t", queue_count=2, cleanup=Cleanup.COMPACT)
    config = replace(
        CONFIG,
        compaction_look_ms=1_000 * HOUR_MS,
        compaction_messages_min=4,
        compaction_tombstone_ms=TOMBSTONE_MS,
    )
    return Keeping(config=config, topics={"t": spec, "u": TopicSpec(name="u", queue_count=1)})


@dataclass(slots=True)
class Model:
    """What was acknowledged: of each queue the messages by offset, as key and body."""

    sent: dict[int, list[tuple[str, bytes]]] = field(default_factory=lambda: {0: [], 1: []})

    def newest(self, queue: int) -> dict[str, int]:
        """Return the offset of the newest message of each key."""
        return {key: offset for offset, (key, _) in enumerate(self.sent[queue])}

    def deleted(self, queue: int) -> set[str]:
        """Return the keys of which the newest message has no body: they may be gone."""
        sent = self.sent[queue]
        return {key for key, offset in self.newest(queue).items() if not sent[offset][1]}

    def check(self, queue: int, found: Iterable[Record], *, gone: Iterable[str] = ()) -> None:
        """Prove what was read of a queue; keys that may be gone are named."""
        offsets = []
        for record in found:
            key, body = self.sent[queue][record.queue_offset]
            assert (record.properties[KEYS], record.body) == (key, body), record.queue_offset
            offsets.append(record.queue_offset)
        assert offsets == sorted(set(offsets)), "out of order, or twice"
        newest = self.newest(queue)
        for key in gone:
            if newest.get(key) not in offsets:
                left = [at for at in offsets if self.sent[queue][at][0] == key]
                assert not left, f"{key} is gone and has old messages"
        missing = {key for key, offset in newest.items() if offset not in offsets} - set(gone)
        assert not missing, f"the newest of {missing} cannot be read"


async def put(engine: LocalEngine, model: Model, *pairs: tuple[str, bytes], queue: int = 0) -> None:
    """Send messages one by one, and note those that were acknowledged."""
    for key, body in pairs:
        one = batch(body, queue=queue, properties={KEYS: key})
        (stored,) = await engine.append([one], ack=AckMode.SYNC)
        assert stored.queue_offset == len(model.sent[queue]), "an offset was used again"
        model.sent[queue].append((key, body))


async def read_all(
    engine: LocalEngine, *, queue: int = 0, start: int | None = None
) -> list[Record]:
    """Read a queue from its begin, or an offset, to its end, as a slow reader does."""
    at = engine.queue_ranges("t")[queue].min_offset if start is None else start
    found = []
    while True:
        result = await engine.pull(
            PullRequest(topic="t", queue=queue, queue_offset=at, messages_max=3)
        )
        if result.status is PullStatus.NO_NEW_MSG:
            return found
        assert result.status in (PullStatus.FOUND, PullStatus.NO_MATCHED_MSG), result.status
        assert result.next_offset > at
        found += [
            decode_record(result.block.payload, at) for at in starts_of(result.block.sizes).tolist()
        ]
        at = result.next_offset


async def compact(engine: LocalEngine) -> None:
    """Run a round for every queue with something new."""
    await engine._compactor.compact_all()


def offsets(found: Iterable[Record]) -> list[int]:
    """Return the queue offsets of records."""
    return [record.queue_offset for record in found]
