"""Celery on each broker that has a transport: one producer process, one worker, the same for all.

Measured: `delay` one by one until all are sent; a worker that meets a full lane, from its first
task to its last; and both at once, from the first `delay` to the last task. Not measured: starting
and connecting; results, which are ignored. Every task's number is looked at afterwards.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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
    """How Celery names a side, what it is told in a mode, and what `delay` then means."""

    name: str
    url: str
    terms: Mapping[Durability, Terms]
    options: Mapping[Durability, Mapping[str, object]] = field(default_factory=dict)


_MQWEB = "mqweb://{host}:{port}//"
_AHEAD: Mapping[str, object] = {"publish_ahead": True}
_TRANSPORTS = {
    "mqweb": (
        Transport(
            "mqweb",
            _MQWEB,
            {
                Durability.ASYNC: Terms(text="answered when written, fdatasync every 500 ms"),
                Durability.SYNC: Terms(text="answered after fdatasync"),
            },
        ),
        Transport(
            "mqweb, `publish_ahead`",
            _MQWEB,
            {
                Durability.ASYNC: Terms(
                    text="returns up to 5 ms before it is sent", is_weaker=True
                ),
                Durability.SYNC: Terms(text="returns up to 5 ms before it is sent", is_weaker=True),
            },
            dict.fromkeys(Durability, _AHEAD),
        ),
    ),
    "Redis Streams": (
        Transport(
            "Redis",
            "redis://{host}:{port}/0",
            {
                Durability.ASYNC: Terms(
                    text="AOF everysec: answered when written, fsync each second"
                ),
                Durability.SYNC: Terms(text="AOF always: answered after fsync"),
            },
        ),
    ),
    "RabbitMQ": (
        Transport(
            "RabbitMQ",
            "pyamqp://guest:guest@{host}:{port}//",
            {
                Durability.ASYNC: Terms(
                    text="persistent, not answered: Celery's default", is_weaker=True
                ),
                Durability.SYNC: Terms(text="persistent, `confirm_publish`: answered after fsync"),
            },
            {Durability.SYNC: {"confirm_publish": True}},
        ),
    ),
}
"""By the name of the side that runs the server. Celery has no transport for NATS."""


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield readings, one side after the other in each repetition."""
    for _ in range(settings.repetitions):
        for durability in Durability:
            for side in settings.sides:
                for transport in _TRANSPORTS.get(side.name, ()):
                    yield from _session(settings, side, transport, durability)


def _session(
    settings: Settings, side: Side, transport: Transport, durability: Durability
) -> Iterator[Reading]:
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

    directory = settings.directory / f"celery-{side.name}"
    directory.mkdir(exist_ok=True)
    verb = "enqueue"
    try:
        with serving(settings, side, durability):
            broker = Broker(
                url=transport.url.format(host=HOST, port=_port(side)),
                options=transport.options.get(durability, {}),
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
