"""Consistent hashing: clients as points of a ring, each queue the next point's. Knows names only.

A point is the first four bytes, big-endian, of the MD5 of `<client>-<number of the virtual node>`;
a queue's is that of RocketMQ's text for it. Ten points do not balance: a client may get nothing.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Sequence

from apps.engine.broker.strategies.queues import BrokerQueue, Shares

VIRTUAL_NODES = 10


def by_ring(
    clients: Sequence[str], queues: Sequence[BrokerQueue], *, virtual_nodes: int = VIRTUAL_NODES
) -> Shares:
    """Give each queue to the client whose point is the next on the ring.

    Who comes takes queues for himself only, and who goes leaves his only.
    """
    # Where two points fall together, the later client has it.
    owners = {
        point_of(f"{client}-{node}"): client for client in clients for node in range(virtual_nodes)
    }
    points = sorted(owners)
    shares: Shares = {client: [] for client in clients}
    for queue in queues:
        at = bisect_left(points, point_of(text_of(queue)))
        shares[owners[points[at % len(points)]]].append(queue)
    return shares


def point_of(key: str) -> int:
    """Return where a key lies on the ring: 0 to 2**32 - 1."""
    digest = hashlib.md5(key.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def text_of(queue: BrokerQueue) -> str:
    """Return a queue as RocketMQ's clients write it, whose hash they take."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.queue}]"
