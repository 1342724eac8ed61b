"""Celery on each broker that has a transport: one producer process, one worker, the same for all.

Measured: `delay` one by one until all are sent; a worker that meets a full lane, from its first
task to its last; and both at once, from the first `delay` to the last task. Not measured: starting
and connecting; results, which are ignored. Every task's number is looked at afterwards.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks import isolated
from benchmarks.celery_work import POOL, Broker, produce, wait, worker
from benchmarks.readings import Reading, Work
from benchmarks.servers import HOST, ServerFailed
from benchmarks.settings import Settings, serving
from benchmarks.sides import Durability, Side, Terms

_TASKS_PER_S = 1_000
_NOTE = f"One producer process; one worker, `{' '.join(POOL)}`, tasks acknowledged as they begin."


@dataclass(frozen=True, slots=True)
class Transport:
    """How Celery names a side, and what an answered `delay` means on it."""

    name: str
    url: str
    terms: Mapping[Durability, Terms]


_TRANSPORTS = {
    "mqweb": Transport(
        "mqweb",
        "mqweb://{host}:{port}//",
        {
            Durability.ASYNC: Terms(text="answered when written, fdatasync every 500 ms"),
            Durability.SYNC: Terms(text="answered after fdatasync"),
        },
    ),
    "Redis Streams": Transport(
        "Redis",
        "redis://{host}:{port}/0",
        {
            Durability.ASYNC: Terms(text="AOF everysec: answered when written, fsync each second"),
            Durability.SYNC: Terms(text="AOF always: answered after fsync"),
        },
    ),
    "RabbitMQ": Transport(
        "RabbitMQ",
        "pyamqp://guest:guest@{host}:{port}//",
        {
            Durability.ASYNC: Terms(
                text="persistent, not answered: Celery's default", is_weaker=True
            ),
            Durability.SYNC: Terms(text="persistent, `confirm_publish`: answered after fsync"),
        },
    ),
}
"""By the name of the side that runs the server. Celery has no transport for NATS."""


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield readings, one side after the other in each repetition."""
    for _ in range(settings.repetitions):
        for durability in Durability:
            for side in settings.sides:
                if side.name in _TRANSPORTS:
                    yield from _session(settings, side, durability)


def _session(settings: Settings, side: Side, durability: Durability) -> Iterator[Reading]:
    transport = _TRANSPORTS[side.name]
    count = int(settings.seconds * _TASKS_PER_S)
    full, more = range(count), range(count, 2 * count)

    def reading(verb: str, s: float, fault: str) -> Reading:
        return Reading(
            work=Work(title=f"Celery, {verb}, {durability}", headline="tasks/s", note=_NOTE),
            side=transport.name,
            is_ours=settings.is_ours(side),
            terms=transport.terms[durability],
            count=count,
            figures={"tasks/s": count / s if s else 0.0},
            fault=fault,
        )

    directory = settings.directory / f"celery-{transport.name}"
    directory.mkdir(exist_ok=True)
    verb = "enqueue"
    try:
        with serving(settings, side, durability):
            broker = Broker(
                url=transport.url.format(host=HOST, port=_port(side)),
                is_confirmed=durability is Durability.SYNC and transport.name == "RabbitMQ",
                effects=directory / "effects",
            )
            broker.effects.unlink(missing_ok=True)
            _, sent_s = produce(broker, full)
            yield reading(verb, sent_s, "")
            verb = "drain"
            with worker(broker):
                drained = wait(broker, full)
                yield reading(verb, drained.last_s - drained.first_s, drained.fault)
                verb = "enqueue and drain at once"
                began_s, _ = produce(broker, more)
                both = wait(broker, more)
                yield reading(verb, both.last_s - began_s, both.fault)
    except (ServerFailed, isolated.WorkFailed) as error:
        yield reading(verb, 0.0, str(error))


def _port(side: Side) -> int:
    port: int = side.clients()[0].client.port  # type: ignore[attr-defined]
    return port
