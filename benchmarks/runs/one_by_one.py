"""One message at a time on one connection: send, wait for the acknowledgement, send the next.

Measured: the whole way of a single message, the client library's overhead included.
Not measured: consuming; every message is still taken afterwards, to see that it arrived.
"""

import gc
from collections.abc import Iterator
from functools import partial

from benchmarks import bodies, isolated
from benchmarks.readings import Reading, Work
from benchmarks.runs.batches import consume
from benchmarks.servers import ServerFailed
from benchmarks.settings import Settings, serving
from benchmarks.sides import Client, Durability, Side

_SIZE_BYTES = 1024
# Servers are fresh in every session, so later repetitions are warmed up too.
_WARM_UP = 500


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield readings, one side after the other in each repetition."""
    counts: dict[tuple[str, Durability], int] = {}
    for _ in range(settings.repetitions):
        for durability in Durability:
            for side in settings.sides:
                yield _reading(settings, side, durability, counts)


def _reading(
    settings: Settings,
    side: Side,
    durability: Durability,
    counts: dict[tuple[str, Durability], int],
) -> Reading:
    count, seconds = 0, 0.0
    try:
        with serving(settings, side, durability):
            client = side.clients()[0].client
            key = (side.name, durability)
            if key not in counts:
                counts[key] = settings.count_for(_SIZE_BYTES, partial(_trial, client))
            else:
                _trial(client, _WARM_UP)
            count = counts[key]
            seconds = isolated.run(send, client, "work", count)
            _, fault = isolated.run(consume, client, "work", count, _SIZE_BYTES)
    except (ServerFailed, isolated.WorkFailed) as error:
        fault = str(error)
    return Reading(
        work=Work(title=f"one by one, {_SIZE_BYTES:,} B, {durability}", headline="msg/s"),
        side=side.name,
        is_ours=settings.is_ours(side),
        terms=side.terms(durability),
        count=count,
        figures={"msg/s": count / seconds if seconds else 0.0},
        fault=fault,
    )


def _trial(client: Client, count: int) -> float:
    return isolated.run(send, client, f"trial-{count}", count)


def send(client: Client, topic: str, count: int) -> float:
    """Send `count` messages one by one; return the seconds."""
    made = bodies.make(count, _SIZE_BYTES)
    client.create(topic)
    gc.collect()
    return client.one_by_one(topic, made)
