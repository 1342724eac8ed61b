"""Two curves of each side: throughput by batch size, and latency by offered load.

Measured: sends of 1 KiB, a batch acknowledged before the next one is sent, with one client process
and one connection's worth of batches; and the open loop of `latency` at several rates. A rate a
side cannot follow shows as a latency without bound, so a curve ends there: where messages came on
average later than a second after they were due.
"""

from collections.abc import Iterator
from functools import partial

from benchmarks import bodies, isolated
from benchmarks.readings import Reading, Work
from benchmarks.runs import latency
from benchmarks.servers import ServerFailed
from benchmarks.settings import Settings, serving
from benchmarks.sides import Client, Durability, Side

_BATCHES = (1, 3, 10, 30, 100, 300, 1_000)
_RATES_PER_S = (500, 1_000, 2_000, 5_000, 10_000, 20_000)
_SIZE_BYTES = 1024
_DURABILITY = Durability.ASYNC
_HOPELESS_MS = 1_000.0

THROUGHPUT = "Throughput by batch size"
LATENCY = "Latency by offered load"


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield the points of both curves, one side after the other in each repetition."""
    for _ in range(settings.repetitions):
        for side in settings.sides:
            yield from _throughput(settings, side)
        for side in settings.sides:
            yield from _latency(settings, side)


def _throughput(settings: Settings, side: Side) -> Iterator[Reading]:
    for batch in _BATCHES:
        count, seconds, fault = 0, 0.0, ""
        topic = f"batch{batch}"
        try:
            # A server of its own: what lies in one from before costs some sides something.
            with serving(settings, side, _DURABILITY):
                client = side.clients()[0].client
                count = settings.count_for(_SIZE_BYTES, partial(_trial, client, topic, batch))
                seconds = isolated.run(produce, client, topic, count, batch)
        except (ServerFailed, isolated.WorkFailed) as error:
            fault = str(error)
        yield Reading(
            work=Work(
                title=f"produce, {_SIZE_BYTES:,} B, batches of {batch:,}, {_DURABILITY}",
                headline="msg/s",
                plot=THROUGHPUT,
                at=batch,
            ),
            side=side.name,
            is_ours=settings.is_ours(side),
            terms=side.terms(_DURABILITY),
            count=count,
            figures={"msg/s": count / seconds} if seconds else {},
            fault=fault,
        )


def _trial(client: Client, topic: str, batch: int, count: int) -> float:
    return isolated.run(produce, client, f"{topic}-trial-{count}", count, batch)


def produce(client: Client, topic: str, count: int, batch: int) -> float:
    """Send `count` messages in batches; return the seconds."""
    made = bodies.make(count, _SIZE_BYTES)
    client.create(topic)
    return client.produce_batches(topic, made, batch)


def _latency(settings: Settings, side: Side) -> Iterator[Reading]:
    for per_s in _RATES_PER_S:
        work = Work(
            title=f"end to end, {per_s:,} msg/s of {_SIZE_BYTES:,} B, {_DURABILITY}",
            headline="p99 ms",
            is_lower_better=True,
            note=latency.NOTE,
            plot=LATENCY,
            at=per_s,
        )
        reading = latency.reading(settings, side, work, per_s=per_s)
        yield reading
        if reading.fault or reading.figures["p50 ms"] > _HOPELESS_MS:
            return
