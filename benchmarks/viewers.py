"""What live viewers cost the broker's sends: `python -m benchmarks.viewers`.

Sends come at a fixed rate, and their latency counts from when they were due, first without viewers
and then with them, several times in turns. Viewers are another process; on a machine with two cores
that process, the senders and the broker share them, so only the ratio means anything. It runs at
the lowest priority: in life the work of reading frames is done on other machines.
"""

import argparse
import asyncio
import http.client
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.servers import HOST, Server, free_port

_MANAGE = Path(__file__).resolve().parent.parent / "manage.py"
_TOPIC = "orders"
_SENDERS = 4
_TOPICS_SHOWN = 20
_READY_S = 60.0
_WARM_UP_S = 2.0
_VIEWS = ("overview", f"topic.{_TOPIC}", "locks", "group.billing")
_JSON = {"Content-Type": "application/json"}


def main() -> None:
    """Measure in turns, and print both distributions and their ratio."""
    chosen = _parser().parse_args()
    if chosen.watch:
        asyncio.run(_watch(chosen.watch, chosen.port))
        return
    with tempfile.TemporaryDirectory(prefix="mqweb-bench-", dir=chosen.directory) as name:
        directory = Path(name)
        # The embedded database runs under another account, which must be able to pass.
        directory.chmod(0o755)
        with _broker(directory) as port:
            ratios = [_turn(port, chosen) for _ in range(chosen.turns)]
    ratios.sort()
    print(
        f"p99 is {statistics.median(ratios):.2f} times what it is without viewers in the median "
        f"of {chosen.turns} turns; {ratios[0]:.2f} in the lowest, {ratios[-1]:.2f} in the highest"
    )


def _turn(port: int, chosen: argparse.Namespace) -> float:
    """Send without viewers and then with them; return by how much the p99 grew."""
    body = json.dumps({"messages": [{"body": "x" * 128}], "ack": chosen.ack})
    _sent(port, body, rate=chosen.rate, lasts_s=_WARM_UP_S)
    without = _sent(port, body, rate=chosen.rate, lasts_s=chosen.seconds)
    with _viewers(chosen.viewers, port):
        _sent(port, body, rate=chosen.rate, lasts_s=_WARM_UP_S)
        beside = _sent(port, body, rate=chosen.rate, lasts_s=chosen.seconds)
    before, after = _told("without viewers", without), _told(f"{chosen.viewers} viewers", beside)
    return after / before


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", type=int, default=500)
    parser.add_argument("--rate", type=int, default=300, help="sends a second")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument(
        "--ack", choices=("async", "sync"), default="async", help="sync adds the noise of the disk"
    )
    parser.add_argument("--directory", type=Path, help="on the disk that is measured")
    parser.add_argument("--watch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    return parser


@contextmanager
def _broker(directory: Path) -> Iterator[int]:
    """Run the whole product with some topics, and yield its port."""
    port = free_port()
    command = [sys.executable, str(_MANAGE), "runmq", "--port", str(port), "--grpc-port", "0"]
    server = Server([*command, "--data", str(directory / "data")], directory=directory)
    try:
        server.wait_for(port)
        _wait_until_ready(port)
        for name in (_TOPIC, *(f"topic-{number}" for number in range(_TOPICS_SHOWN))):
            _ask(port, "PUT", f"/api/v1/topics/{name}", "{}")
        yield port
    finally:
        server.stop()


def _wait_until_ready(port: int) -> None:
    deadline_s = time.monotonic() + _READY_S
    while time.monotonic() < deadline_s:
        try:
            if _ask(port, "GET", "/readyz") == 200:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit("the broker did not become ready")


def _ask(port: int, method: str, path: str, body: str | None = None) -> int:
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    try:
        connection.request(method, path, body, _JSON)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def _sent(port: int, body: str, *, rate: int, lasts_s: float) -> list[float]:
    """Send so many a second over a few connections; return each latency, from when it was due."""
    latencies: list[list[float]] = [[] for _ in range(_SENDERS)]
    begin_s = time.monotonic() + 0.2
    threads = [
        threading.Thread(
            target=_send,
            args=(port, body, begin_s + number / rate, _SENDERS / rate, begin_s + lasts_s, found),
        )
        for number, found in enumerate(latencies)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return list(itertools.chain.from_iterable(latencies))


def _send(
    port: int, body: str, due_s: float, every_s: float, end_s: float, latencies: list[float]
) -> None:
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    while due_s < end_s:
        time.sleep(max(0.0, due_s - time.monotonic()))
        connection.request("POST", f"/api/v1/topics/{_TOPIC}/messages", body, _JSON)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 201:
            raise SystemExit(f"a send was answered {answer.status}")
        latencies.append(time.monotonic() - due_s)
        due_s += every_s
    connection.close()


@contextmanager
def _viewers(count: int, port: int) -> Iterator[None]:
    """Have so many sockets read in a process of their own."""
    command = [sys.executable, "-m", "benchmarks.viewers", "--watch", str(count)]
    watching = subprocess.Popen(
        [*command, "--port", str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    if watching.stdout.readline().strip() != "all are there":
        raise SystemExit("the viewers did not come")
    try:
        yield
    finally:
        told, _ = watching.communicate("\n")
        print(told.strip())


async def _watch(count: int, port: int) -> None:
    """Open sockets and read them until a line comes in; say what came."""
    from websockets.asyncio.client import connect

    os.nice(19)
    frames = [0] * count
    sizes = [0] * count

    async def read(number: int, socket: Any) -> None:
        async for text in socket:
            frames[number] += 1
            sizes[number] += len(text)

    sockets = []
    for number in range(count):
        view = _VIEWS[number % len(_VIEWS)]
        sockets.append(
            await connect(
                f"ws://{HOST}:{port}/ws/live/?view={view}",
                origin=f"http://{HOST}:{port}",  # type: ignore[arg-type]
                max_size=None,
                compression=None,
                open_timeout=60,
            )
        )
    reading = [asyncio.create_task(read(number, one)) for number, one in enumerate(sockets)]
    await asyncio.sleep(1.0)
    print("all are there", flush=True)
    begun_s = time.monotonic()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    lasted_s = time.monotonic() - begun_s
    for task in reading:
        task.cancel()
    print(
        f"  {count} viewers: {sum(frames) / count / lasted_s:.2f} frames a second each, "
        f"{sum(sizes) / max(1, sum(frames)):.0f} bytes a frame, the fewest {min(frames)} frames",
        flush=True,
    )


def _told(name: str, latencies: Sequence[float]) -> float:
    """Print a distribution, and return its p99 in seconds."""
    cuts = statistics.quantiles(latencies, n=100)
    print(
        f"{name}: {len(latencies)} sends, p50 {cuts[49] * 1e3:.2f} ms, p99 {cuts[98] * 1e3:.2f} ms,"
        f" longest {max(latencies) * 1e3:.1f} ms"
    )
    return cuts[98]


if __name__ == "__main__":
    main()
