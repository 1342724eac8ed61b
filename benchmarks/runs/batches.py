"""Batches in, batches out: how fast one client process sends, and another takes and acknowledges.

Measured: the client's packing, the way to the server and back, its checks and its writes.
Not measured: making the bodies, connecting, checking afterwards what arrived.
"""

import gc
from collections.abc import Iterator
from functools import partial

from benchmarks import bodies, isolated
from benchmarks.readings import Reading, Work
from benchmarks.servers import ServerFailed
from benchmarks.settings import Settings, serving
from benchmarks.sides import Client, Durability, Side

_SIZES_BYTES = {Durability.ASYNC: (1024, 128), Durability.SYNC: (1024,)}
# Servers are fresh in every session, so later repetitions are warmed up too.
_WARM_UP = 20_000


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield readings, one side after the other in each repetition."""
    counts: dict[tuple[str, str, Durability, int], int] = {}
    for _ in range(settings.repetitions):
        for durability in Durability:
            for side in settings.sides:
                yield from _session(settings, side, durability, counts)


def _session(
    settings: Settings,
    side: Side,
    durability: Durability,
    counts: dict[tuple[str, str, Durability, int], int],
) -> Iterator[Reading]:
    def reading(verb: str, size: int, label: str, count: int, s: float, fault: str) -> Reading:
        return Reading(
            work=Work(title=f"{verb}, {size:,} B, {durability}", headline="msg/s"),
            side=f"{side.name} {label}".strip(),
            is_ours=settings.is_ours(side),
            terms=side.terms(durability),
            count=count,
            figures={"msg/s": count / s if s else 0.0},
            fault=fault,
        )

    size, label = _SIZES_BYTES[durability][0], ""
    try:
        with serving(settings, side, durability):
            for number, variant in enumerate(side.clients()):
                label = variant.sending
                for size in _SIZES_BYTES[durability]:
                    key = (side.name, label, durability, size)
                    topic = f"work{number}-{size}"
                    trial = partial(_trial, variant.client, topic, size)
                    if key not in counts:
                        counts[key] = settings.count_for(size, trial)
                    else:
                        trial(_WARM_UP)
                    count = counts[key]
                    sent_s = isolated.run(produce, variant.client, topic, count, size)
                    took_s, fault = isolated.run(consume, variant.client, topic, count, size)
                    yield reading("produce", size, label, count, sent_s, fault)
                    if variant.reading:
                        taken = "consume and ack"
                        yield reading(taken, size, variant.reading, count, took_s, fault)
    except (ServerFailed, isolated.WorkFailed) as error:
        yield reading("produce", size, label, 0, 0.0, str(error))


def _trial(client: Client, topic: str, size_bytes: int, count: int) -> float:
    return isolated.run(produce, client, f"{topic}-trial-{count}", count, size_bytes)


def produce(client: Client, topic: str, count: int, size_bytes: int) -> float:
    """Send `count` messages; return the seconds."""
    made = bodies.make(count, size_bytes)
    client.create(topic)
    gc.collect()
    return client.produce(topic, made)


def consume(client: Client, topic: str, count: int, size_bytes: int) -> tuple[float, str]:
    """Take `count` messages; return the seconds, and how what came differs from what was sent."""
    gc.collect()
    seconds, found = client.consume(topic, count)
    return seconds, bodies.fault(found, count=count, size_bytes=size_bytes)
