"""One producer and one worker of a Celery broker, and what the worker's tasks wrote down."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import celery_app, isolated
from benchmarks.servers import Server
from benchmarks.sides import PATIENCE_S

_ROOT = Path(__file__).resolve().parent.parent
# What a worker has by default on two cores, without what only many workers need.
POOL = ("--pool", "prefork", "--concurrency", "2", "--prefetch-multiplier", "4")
_QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR")
# A worker starts, connects and forks within this.
_START_S = 30.0
_LOOK_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """How producer and worker reach the broker."""

    url: str
    options: Mapping[str, object]
    effects: Path


@contextmanager
def worker(broker: Broker) -> Iterator[None]:
    """Run a worker for the time of the block; it may still be starting when the block begins."""
    command = [sys.executable, "-m", "celery", "-A", "benchmarks.celery_app", "worker"]
    variables = celery_app.environ(broker.url, broker.effects, options=broker.options)
    server = Server(
        [*command, *POOL, *_QUIET],
        directory=broker.effects.parent,
        environ={**variables, "PYTHONPATH": str(_ROOT)},
    )
    try:
        yield
    finally:
        server.stop()


def produce(broker: Broker, numbers: range) -> tuple[float, float]:
    """Send tasks one by one from a fresh process; return when it began, and the seconds."""
    return isolated.run(send, broker.url, broker.options, numbers)


def send(url: str, options: Mapping[str, object], numbers: range) -> tuple[float, float]:
    """Send one task for each number with `delay`; connecting and declaring is not timed."""
    app = celery_app.application(url, options=options)
    task = celery_app.task_of(app)
    with app.producer_pool.acquire(block=True) as producer:
        channel = producer.channel
        assert channel is not None
        app.amqp.queues[app.conf.task_default_queue](channel).declare()
    started_s = time.monotonic()
    for number in numbers:
        task.delay(number)
    return started_s, time.monotonic() - started_s


@dataclass(frozen=True, slots=True)
class Effects:
    """What tasks wrote down; `fault` says how it differs from what was sent."""

    first_s: float
    last_s: float
    fault: str


def wait(broker: Broker, numbers: range) -> Effects:
    """Wait until every task ran, or none did for a while; numbers before these have run."""
    size_bytes = celery_app.EFFECT.size
    path = broker.effects
    seen, deadline_s = numbers.start * size_bytes, time.monotonic() + _START_S
    while seen < numbers.stop * size_bytes and time.monotonic() < deadline_s:
        time.sleep(_LOOK_S)
        written = path.stat().st_size if path.exists() else 0
        if written > seen:
            seen, deadline_s = written, time.monotonic() + PATIENCE_S
    text = path.read_bytes() if path.exists() else b""
    found = list(celery_app.EFFECT.iter_unpack(text[numbers.start * size_bytes :]))
    times_s = [at_s for _, at_s in found]
    return Effects(
        min(times_s, default=0.0),
        max(times_s, default=0.0),
        _fault(Counter(number for number, _ in found), numbers),
    )


def _fault(runs: Counter[int], numbers: range) -> str:
    lost = sum(number not in runs for number in numbers)
    again = runs.total() - len(runs)
    foreign = sum(number not in numbers for number in runs)
    if not (lost or again or foreign):
        return ""
    return f"{lost} tasks lost, {again} run again, {foreign} foreign of {len(numbers)}"
