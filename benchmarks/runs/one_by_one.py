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
    counts: dict[tuple[str, str, Durability], int] = {}
    for _ in range(settings.repetitions):
        for durability in Durability:
            for side in settings.sides:
                yield from _session(settings, side, durability, counts)


def _session(
    settings: Settings,
    side: Side,
    durability: Durability,
    counts: dict[tuple[str, str, Durability], int],
) -> Iterator[Reading]:
    def reading(label: str, count: int, seconds: float, fault: str) -> Reading:
        return Reading(
            work=Work(title=f"one by one, {_SIZE_BYTES:,} B, {durability}", headline="msg/s"),
            side=f"{side.name} {label}".strip(),
            is_ours=settings.is_ours(side),
            terms=side.terms(durability),
            count=count,
            figures={"msg/s": count / seconds if seconds else 0.0},
            fault=fault,
        )

    label = ""
    try:
        with serving(settings, side, durability):
            for number, variant in enumerate(side.clients()):
                label, client = variant.single, variant.client
                if number and not label:
                    continue
                key = (side.name, label, durability)
                topic = f"work{number}"
                if key not in counts:
                    counts[key] = settings.count_for(_SIZE_BYTES, partial(_trial, client, topic))
                else:
                    _trial(client, topic, _WARM_UP)
                count = counts[key]
                seconds = isolated.run(send, client, topic, count)
                _, fault = isolated.run(consume, client, topic, count, _SIZE_BYTES)
                yield reading(label, count, seconds, fault)
    except (ServerFailed, isolated.WorkFailed) as error:
        yield reading(label, 0, 0.0, str(error))


def _trial(client: Client, topic: str, count: int) -> float:
    return isolated.run(send, client, f"{topic}-trial-{count}", count)


def send(client: Client, topic: str, count: int) -> float:
    """Send `count` messages one by one; return the seconds."""
    made = bodies.make(count, _SIZE_BYTES)
    client.create(topic)
    gc.collect()
    return client.one_by_one(topic, made)
