"""What a store holds, as plain values to be compared: everything a reader or an operator can ask.

Records are told by the SHA-256 of their bytes, where they were not sent before.
"""

import hashlib
from typing import Any

from apps.engine.broker.core import Broker
from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import decode_record
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import PullRequest
from tests.engine.damage.stores import image, opened

SYSTEM = (("%DLQ%billing", 0),)


def contents_of(disk: SimulatedDisk) -> dict[str, Any]:
    """Open a copy of a store and return what it holds."""
    broker = opened(image(disk))
    queues = {
        f"{queue.topic}/{queue.queue}": [queue.min_offset, queue.end, _sum(broker, queue)]
        for queue in sorted(broker.queues, key=lambda one: (one.topic, one.queue))
        if queue.end
    }
    progress = [
        [row.group, row.topic, row.queue, row.committed, row.delivered, row.in_flight]
        for row in broker.offsets.progress(None)
    ]
    waiting = [[one.topic, one.message_id, one.due_ms, one.size_bytes] for one in _waiting(broker)]
    status = broker.checks.status()
    return {
        "topics": {name: spec.queue_count for name, spec in broker.catalog.snapshot.topics.items()},
        "queues": queues,
        "bodies": {f"{topic}/{queue}": _bodies(broker, topic, queue) for topic, queue in SYSTEM},
        "progress": progress,
        "waiting": waiting,
        "levels": [
            [state.level, state.delivered, state.max_offset]
            for state in broker.schedule.states()
            if state.max_offset
        ],
        "transactions": [half.half_offset for half in broker.checks.pending(None, -1, 100)],
        "transactions_pending": status.pending,
        "leases": len(broker.state.leases),
        "recovery": {
            "cut_bytes": broker.log.recovery.cut_bytes,
            "scanned_records": broker.log.recovery.scanned_records,
            "log_end": broker.log.recovery.log_end,
        },
        "quarantine": broker.damage.range_count,
    }


def _waiting(broker: Broker) -> list[Any]:
    return list(
        broker.delaylist.page(
            topic=None, from_ms=None, to_ms=None, cursor=None, messages_max=1000, wait=True
        ).messages
    )


def _sum(broker: Broker, queue: Any) -> str:
    entries = queue.read(queue.min_offset, queue.end - queue.min_offset)
    payload = broker.log.read_records(
        entries["log_offset"].astype("i8"), entries["size_bytes"].astype("i4"), wait=True
    )
    return hashlib.sha256(payload).hexdigest()


def _bodies(broker: Broker, topic: str, queue: int) -> list[str]:
    request = PullRequest(topic=topic, queue=queue, queue_offset=0, messages_max=1000)
    block = broker.pull(request).block
    starts = starts_of(block.sizes).tolist()
    return [decode_record(block.payload, at).body.hex() for at in starts]
