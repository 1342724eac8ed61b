"""The whole product with much in it and nothing to do: 10,000 queues, 1,000 groups, waiting pulls.

Measured: processor time and memory of the broker's process over half a minute in which nothing is
sent while 1,000 connections have a pull parked each, which is asked again when its 30 s are over;
and the same of all processes of the product together, worker, beat and PostgreSQL included, with
the time of children that have ended. Memory that several processes share counts once in "all, MB",
a part for each, and in "all, resident MB" once for each. Not measured: making topics and groups.
"""

import asyncio
import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from benchmarks import isolated
from benchmarks.ours import Mqweb
from benchmarks.readings import Reading, Work
from benchmarks.servers import HOST, ServerFailed
from benchmarks.settings import Settings, serving
from benchmarks.sides import Durability

_TOPICS, _QUEUES_EACH = 100, 100
_QUICK_TOPICS = 5
_GROUPS = 1_000
_QUICK_GROUPS = 20
_PARKED = 1_000
_WAIT_MS = 30_000
_SETTLE_S = 10.0
_IDLE_S = 30.0
_MB = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Processor seconds and memory of some processes at a moment."""

    processor_s: float
    shared_out_mb: float
    """Each page divided by the number of processes that have it: the kernel's PSS."""
    resident_mb: float


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield one reading a repetition."""
    is_quick = settings.seconds <= 1
    topics, groups = (_QUICK_TOPICS, _QUICK_GROUPS) if is_quick else (_TOPICS, _GROUPS)
    side = Mqweb()
    for _ in range(settings.repetitions):
        figures: dict[str, float] = {}
        fault = ""
        try:
            with serving(settings, side, Durability.SYNC):
                port = side.mqweb_client().port
                isolated.run(fill, port, topics, groups)
                parking = isolated.Running(park, port, topics, _SETTLE_S + _IDLE_S)
                try:
                    figures = _figures(port)
                    answered = parking.result()
                    fault = "" if answered else "no pull was answered"
                finally:
                    parking.stop()
        except (ServerFailed, isolated.WorkFailed) as error:
            fault = str(error)
        yield Reading(
            work=Work(
                title=f"idle: {topics * _QUEUES_EACH:,} queues, {groups:,} groups, "
                f"{_PARKED:,} parked pulls",
                headline="broker, % of a processor",
                is_lower_better=True,
            ),
            side=side.name,
            is_ours=True,
            terms=side.terms(Durability.SYNC),
            count=0,
            figures=figures,
            fault=fault,
        )


def _figures(port: int) -> dict[str, float]:
    broker = _listener(port)
    product = [broker.parents()[0], *broker.parents()[0].children(recursive=True)]
    time.sleep(_SETTLE_S)
    before, all_before = _use([broker]), _use(product)
    time.sleep(_IDLE_S)
    after, all_after = _use([broker]), _use(product)
    return {
        "broker, % of a processor": 100 * (after.processor_s - before.processor_s) / _IDLE_S,
        "broker, MB": after.resident_mb,
        "all, % of a processor": 100 * (all_after.processor_s - all_before.processor_s) / _IDLE_S,
        "all, MB": all_after.shared_out_mb,
        "all, resident MB": all_after.resident_mb,
    }


def _listener(port: int) -> psutil.Process:
    """Return the process that listens on a port."""
    for found in psutil.net_connections("tcp"):
        is_ours = found.status == psutil.CONN_LISTEN and found.laddr and found.laddr.port == port
        if is_ours and found.pid:
            return psutil.Process(found.pid)
    raise ServerFailed(f"nobody listens on port {port}")


def _use(processes: list[psutil.Process]) -> Use:
    """Add up what processes and their ended children use."""
    processor_s = shared_out_mb = resident_mb = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
            memory = process.memory_full_info()
        except psutil.NoSuchProcess:
            # A short-lived child of a pool; what it used is its parent's children's time.
            continue
        processor_s += times.user + times.system + times.children_user + times.children_system
        shared_out_mb += memory.pss / _MB
        resident_mb += memory.rss / _MB
    return Use(processor_s=processor_s, shared_out_mb=shared_out_mb, resident_mb=resident_mb)


def fill(port: int, topics: int, groups: int) -> None:
    """Make the topics and groups; raise AssertionError where one is refused."""
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    for number in range(topics):
        _put(connection, f"/api/v1/topics/idle{number}", {"queue_count": _QUEUES_EACH})
    for number in range(groups):
        _put(connection, f"/api/v1/groups/idle{number}", {})
    connection.close()


def _put(connection: http.client.HTTPConnection, path: str, document: object) -> None:
    headers = {"Content-Type": "application/json"}
    connection.request("PUT", path, json.dumps(document), headers)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status in (200, 201), f"{path}: {answer.status} {text[:200]!r}"


def park(port: int, topics: int, seconds: float) -> int:
    """Keep pulls parked for so long; return how many were answered when their wait was over."""
    return asyncio.run(_park(port, topics, seconds))


async def _park(port: int, topics: int, seconds: float) -> int:
    answered = [0]
    waiting = [
        asyncio.create_task(_pull_again(port, number, topics, answered))
        for number in range(_PARKED)
    ]
    await asyncio.sleep(seconds)
    failed = [task.exception() for task in waiting if task.done()]
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    if failed:
        raise RuntimeError(f"{len(failed)} connections ended, the first one by {failed[0]!r}")
    return answered[0]


async def _pull_again(port: int, number: int, topics: int, answered: list[int]) -> None:
    reader, writer = await asyncio.open_connection(HOST, port)
    path = f"/api/v1/topics/idle{number % topics}/queues/{number // topics % _QUEUES_EACH}/messages"
    request = f"GET {path}?offset=0&wait_ms={_WAIT_MS} HTTP/1.1\r\nHost: {HOST}:{port}\r\n\r\n"
    try:
        while True:
            writer.write(request.encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"answered {head[:100]!r}")
            length = next(
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length:")
            )
            await reader.readexactly(length)
            answered[0] += 1
    finally:
        writer.close()
