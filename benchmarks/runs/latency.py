"""End to end in an open loop: a message is due every 0.2 ms, whether the last one came or not.

Measured: from the moment a message was due, not from when it was sent, to when the consumer's
code has it; so a stall counts for every message that was due in it. Sender and consumer are two
processes; both read the system's one monotonic clock. Not measured: the first second.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from multiprocessing.synchronize import Barrier

from benchmarks import bodies, isolated
from benchmarks.readings import Reading, Work
from benchmarks.servers import ServerFailed
from benchmarks.settings import Settings, serving
from benchmarks.sides import Client, Durability, Pace, Side

_RATE_PER_S = 5_000
_SIZE_BYTES = 1024
_WARM_UP_S = 1
# Both processes have imported what they need; this is for connecting.
_LEAD_S = 1.0
_DURABILITY = Durability.ASYNC
NOTE = "Open loop; senders look every 1 ms for what is due; latency from the due time."
WORK = Work(
    title=f"end to end, {_RATE_PER_S:,} msg/s of {_SIZE_BYTES:,} B, {_DURABILITY}",
    headline="p99 ms",
    is_lower_better=True,
    note=NOTE,
)


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield readings, one side after the other in each repetition."""
    for _ in range(settings.repetitions):
        for side in settings.sides:
            yield reading(settings, side, WORK, per_s=_RATE_PER_S)


def reading(settings: Settings, side: Side, work: Work, *, per_s: int) -> Reading:
    """Return one reading of a side at a rate."""
    count = int((_WARM_UP_S + settings.seconds) * per_s)
    figures: dict[str, float] = {}
    try:
        with serving(settings, side, _DURABILITY):
            client = side.clients()[0].client
            isolated.run(create, client, "work")
            start = isolated.barrier(2)
            receiver = isolated.Running(receive, client, "work", count, start)
            try:
                pace = isolated.Running(send, client, "work", count, per_s, start).result()
                arrivals, fault = receiver.result()
            finally:
                receiver.stop()
            if not fault:
                figures = _figures(arrivals, pace)
    except (ServerFailed, isolated.WorkFailed) as error:
        fault = str(error)
    return Reading(
        work=work,
        side=side.name,
        is_ours=settings.is_ours(side),
        terms=side.terms(_DURABILITY),
        count=count - _WARM_UP_S * per_s,
        figures=figures,
        fault=fault,
    )


def _figures(arrivals: Sequence[tuple[float, int]], pace: Pace) -> dict[str, float]:
    latencies_ms = [
        (arrived_s - pace.due_at_s(index)) * 1000
        for arrived_s, index in arrivals
        if index >= _WARM_UP_S * pace.per_s
    ]
    thousandths = statistics.quantiles(latencies_ms, n=1000)
    return {
        "p50 ms": thousandths[499],
        "p99 ms": thousandths[989],
        "p99.9 ms": thousandths[998],
        "max ms": max(latencies_ms),
    }


def create(client: Client, topic: str) -> None:
    """Make the topic."""
    client.create(topic)


def send(client: Client, topic: str, count: int, per_s: int, start: Barrier) -> Pace:
    """Send `count` messages, each when it is due; return when that was."""
    made = bodies.make(count, _SIZE_BYTES)
    # Whatever the client imports when it is first used is imported by this.
    client.create("sender-warm")
    start.wait()
    pace = Pace(start_s=time.monotonic() + _LEAD_S, per_s=per_s)
    client.send_paced(topic, made, pace)
    return pace


def receive(
    client: Client, topic: str, count: int, start: Barrier
) -> tuple[list[tuple[float, int]], str]:
    """Return when each message came, with its index, and what is wrong with them."""
    client.create("receiver-warm")
    start.wait()
    found = client.receive_stamped(topic, count)
    fault = bodies.fault((body for _, body in found), count=count, size_bytes=_SIZE_BYTES)
    return [(arrived_s, bodies.index_of(body)) for arrived_s, body in found], fault
