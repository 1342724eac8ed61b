"""RocketMQ's own Python client, message by message, on one connection and on 16.

Measured: sends, each of which waits for its answer, and receives of up to 32 messages that are
acknowledged one by one, which is how this client does both; the processor seconds of the client's
process and of the server's. Beside it our SDK in the same shape, and, where its jars are built
(`python -m tests.conformance.apache`), Apache's own server under the same client, flushing before
each answer like ours. Not measured: connecting; push consumers.
"""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mqclient
import psutil

from benchmarks import isolated
from benchmarks.ours import Mqweb
from benchmarks.readings import Reading, Work
from benchmarks.servers import HOST, ServerFailed
from benchmarks.settings import Settings, serving
from benchmarks.sides import Durability, Terms
from tests.conformance import apache, clients

_WORKER = Path(__file__).parents[1] / "peers" / "rocketmq_worker.py"
_TOPIC, _GROUP = "works", "workers"
_BODY_BYTES = 1024
_BATCH = 32
# A round takes about a millisecond of this client's processor time, whatever answers.
_PER_S = 500
_TIMEOUT_S = 300.0
_PATIENCE_S = 30.0
_NOTE = "1,024 B, one message a request; sync: answered when the message is on the disk."
_APACHE_TERMS = Terms(text="SYNC_FLUSH: answered after the flush of the commit log")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a client did: how long it took, and what it cost the client's processor."""

    seconds: float
    cpu_s: float
    distinct: int


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield readings: the foreign client and ours against mqweb, then Apache's server."""
    for _ in range(settings.repetitions):
        for durability in Durability if "mqweb" in settings.rocketmq_servers else ():
            yield from _ours(settings, durability)
        is_built = (clients.builds() / "apache" / "target" / "apache-1.jar").exists()
        if is_built and "apache" in settings.rocketmq_servers:
            yield from _apache(settings)


def _ours(settings: Settings, durability: Durability) -> Iterator[Reading]:
    side = Mqweb()
    terms = side.terms(durability)
    try:
        with serving(settings, side, durability):
            client = side.mqweb_client()
            endpoint = f"{HOST}:{side.grpc_port}"
            for connections in settings.rocketmq_connections:
                topic = f"{_TOPIC}-{connections}"
                for name in (topic, f"{topic}-warm", f"{topic}-sdk"):
                    client.create(name)
                count = _count(settings, connections)
                for verb in ("send", "receive"):
                    with _used(side.pid) as used:
                        done = _foreign(verb, endpoint, topic, connections, count, used.begin)
                    yield _reading(
                        verb, connections, durability, "rocketmq-python-client on mqweb", True,
                        terms, count, done, used.cpu_s,
                    )  # fmt: skip
                for verb in ("send", "receive"):
                    with _used(side.pid) as used:
                        used.begin()
                        done = isolated.run(
                            sdk, verb, client.port, f"{topic}-sdk", connections, count,
                            durability.value,
                        )  # fmt: skip
                    yield _reading(
                        verb, connections, durability, "mqclient on mqweb", True,
                        terms, count, done, used.cpu_s,
                    )  # fmt: skip
    except (ServerFailed, isolated.WorkFailed) as error:
        name = "rocketmq-python-client on mqweb"
        yield _fault(settings, name, True, terms, durability, str(error))


def _apache(settings: Settings) -> Iterator[Reading]:
    name = "rocketmq-python-client on Apache RocketMQ"
    directory = settings.directory / f"apache-{time.monotonic_ns()}"
    directory.mkdir()
    server = apache.Apache(directory)
    try:
        for connections in settings.rocketmq_connections:
            topic = f"{_TOPIC}-{connections}"
            for made in (topic, f"{topic}-warm"):
                server.create_topic(made)
            server.create_group(_GROUP)
            count = _count(settings, connections)
            for verb in ("send", "receive"):
                with _used(server.pid) as used:
                    done = _foreign(verb, server.endpoint, topic, connections, count, used.begin)
                yield _reading(
                    verb, connections, Durability.SYNC, name, False, _APACHE_TERMS, count, done,
                    used.cpu_s,
                )  # fmt: skip
    except isolated.WorkFailed as error:
        yield _fault(settings, name, False, _APACHE_TERMS, Durability.SYNC, str(error))
    finally:
        server.stop()


def _count(settings: Settings, connections: int) -> int:
    # Threads of one Python process share its lock, so sixteen are not sixteen times as fast.
    return int(settings.seconds * _PER_S * (2 if connections > 1 else 1))


def _reading(
    verb: str,
    connections: int,
    durability: Durability,
    side: str,
    is_ours: bool,
    terms: Terms,
    count: int,
    done: Done,
    server_cpu_s: float,
) -> Reading:
    return Reading(
        work=_work(verb, connections, durability),
        side=side,
        is_ours=is_ours,
        terms=terms,
        count=count,
        figures={
            "msg/s": count / done.seconds if done.seconds else 0.0,
            "client us/msg": done.cpu_s / count * 1e6,
            "server us/msg": server_cpu_s / count * 1e6,
        },
        fault="" if done.distinct == count else f"{done.distinct} of {count} messages were seen",
    )


def _fault(
    settings: Settings,
    side: str,
    is_ours: bool,
    terms: Terms,
    durability: Durability,
    text: str,
) -> Reading:
    return Reading(
        work=_work("send", settings.rocketmq_connections[0], durability),
        side=side,
        is_ours=is_ours,
        terms=terms,
        count=0,
        figures={"msg/s": 0.0},
        fault=text,
    )


def _work(verb: str, connections: int, durability: Durability) -> Work:
    what = "send" if verb == "send" else "receive and acknowledge"
    plural = "connection" if connections == 1 else "connections"
    return Work(
        title=f"RocketMQ's client: {what}, {connections} {plural}, {durability}",
        headline="msg/s",
        note=_NOTE,
    )


class _Used:
    """The processor seconds of a process and its children between two moments."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._before_s = 0.0
        self.cpu_s = 0.0

    def begin(self) -> None:
        """Count from here on."""
        self._before_s = self._now_s()

    def end(self) -> None:
        """Count up to here."""
        self.cpu_s = self._now_s() - self._before_s

    def _now_s(self) -> float:
        total_s = 0.0
        for process in (self._process, *self._process.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                # Its time is its parent's children's.
                continue
            total_s += times.user + times.system
        return total_s


@contextmanager
def _used(pid: int) -> Iterator[_Used]:
    used = _Used(pid)
    yield used
    used.end()


def _foreign(
    verb: str, endpoint: str, topic: str, connections: int, count: int, begin: Any
) -> Done:
    """Have the client of the other environment do its work; raise WorkFailed."""
    client = clients.CLIENTS["python"]
    if not client.is_built():
        raise isolated.WorkFailed("build it first: python -m tests.conformance.clients python")
    python = client.directory / "venv/bin/python"
    command = [str(python), str(_WORKER), verb, endpoint, topic, _GROUP]
    os.sync()
    with subprocess.Popen(
        [*command, str(connections), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = threading.Timer(_TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            if process.stdout.readline() != "ready\n":
                raise isolated.WorkFailed("the client did not begin")
            begin()
            process.stdin.write("go\n")
            process.stdin.flush()
            told = process.stdout.readline()
        finally:
            watchdog.cancel()
            process.kill()
    if not told:
        raise isolated.WorkFailed("the client died")
    document = json.loads(told)
    return Done(seconds=document["seconds"], cpu_s=document["cpu_s"], distinct=document["distinct"])


def sdk(verb: str, port: int, topic: str, connections: int, count: int, ack: str) -> Done:
    """Do the same with our SDK: a producer or consumer a thread, each waiting for its answer."""
    url = f"http://{HOST}:{port}"
    lock = threading.Lock()
    numbers = iter(range(count))
    seen: set[bytes] = set()
    last_s = 0.0

    def finish(bodies: list[bytes]) -> None:
        nonlocal last_s
        with lock:
            seen.update(bodies)
            last_s = time.perf_counter()

    def send() -> None:
        with mqclient.Producer(url, ack=ack, linger_ms=0.0, in_flight_max=1) as producer:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                body = b"%-*d" % (_BODY_BYTES, number)
                producer.send(topic, body)
                finish([body])

    def receive() -> None:
        with mqclient.SimpleConsumer(topic, _GROUP, url, messages_max=_BATCH, wait_ms=1000) as one:
            quiet_s = time.perf_counter()
            while len(seen) < count and time.perf_counter() - quiet_s < _PATIENCE_S:
                messages = one.receive()
                for message in messages:
                    one.ack(message)
                if messages:
                    finish([message.body for message in messages])
                    quiet_s = time.perf_counter()

    threads = [
        threading.Thread(target=send if verb == "send" else receive) for _ in range(connections)
    ]
    started_s, before = time.perf_counter(), os.times()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = os.times()
    cpu_s = after.user + after.system - before.user - before.system
    return Done(seconds=last_s - started_s, cpu_s=cpu_s, distinct=len(seen))
