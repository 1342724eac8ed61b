"""The work of RocketMQ's own Python client, in a process and an environment of its own.

    python rocketmq_worker.py send|receive ENDPOINT TOPIC GROUP CONNECTIONS COUNT

Each connection is a producer or consumer of its own on a thread of its own: this client has no
other way to have several messages under way but futures, which its own examples do not use. Writes
`ready` when all have done one round, waits for a line, works, and writes a JSON document with the
seconds and its own processor seconds. Knows nothing of mqweb.
"""

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)

_BODY_BYTES = 1024
_BATCH = 32
_INVISIBLE_S = 60
_WAIT_S = 5
_PATIENCE_S = 30.0


class _Work:
    """What all connections share: how much is left, and when the last was done."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._lock = threading.Lock()
        self.done = 0
        self.last_s = 0.0
        self.bodies: set[bytes] = set()

    def take(self) -> int | None:
        """Return the number of the next message to send, None when all are under way."""
        with self._lock:
            if self._left == 0:
                return None
            self._left -= 1
            return self._left

    def finish(self, bodies: list[bytes]) -> None:
        """Count messages that are done."""
        with self._lock:
            self.done += len(bodies)
            self.bodies.update(bodies)
            self.last_s = time.perf_counter()


def _configuration(endpoint: str) -> ClientConfiguration:
    return ClientConfiguration(endpoint, Credentials(), request_timeout=10)


def _message(topic: str, number: int) -> Message:
    message = Message()
    message.topic = topic
    message.body = b"%-*d" % (_BODY_BYTES, number)
    return message


def _send(producer: Any, topic: str, work: _Work) -> None:
    while (number := work.take()) is not None:
        message = _message(topic, number)
        producer.send(message)
        work.finish([message.body])


def _receive(consumer: Any, count: int, work: _Work) -> None:
    deadline_s = time.perf_counter() + _PATIENCE_S
    while len(work.bodies) < count and time.perf_counter() < deadline_s:
        messages = consumer.receive(_BATCH, _INVISIBLE_S) or []
        for message in messages:
            consumer.ack(message)
        if messages:
            work.finish([message.body for message in messages])
            deadline_s = time.perf_counter() + _PATIENCE_S


def _cpu_s() -> float:
    used = os.times()
    return used.user + used.system


def main(arguments: list[str]) -> None:
    """Do the work once."""
    verb, endpoint, topic, group, connections, count = arguments
    clients: list[Any] = []
    for _ in range(int(connections)):
        if verb == "send":
            clients.append(Producer(_configuration(endpoint), (topic,)))
        else:
            filters = {topic: FilterExpression()}
            clients.append(
                SimpleConsumer(_configuration(endpoint), group, filters, await_duration=_WAIT_S)
            )
        clients[-1].startup()
    if verb == "send":
        for number, producer in enumerate(clients):
            # A message of the warm-up is not one of those that are looked for afterwards.
            producer.send(_message(f"{topic}-warm", number))
    protocol = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        protocol.write("ready\n")
        protocol.flush()
        sys.stdin.readline()
        work = _Work(int(count))
        calls: list[Callable[[], None]]
        if verb == "send":
            calls = [partial(_send, client, topic, work) for client in clients]
        else:
            calls = [partial(_receive, client, int(count), work) for client in clients]
        threads = [threading.Thread(target=call) for call in calls]
        started_s, started_cpu_s = time.perf_counter(), _cpu_s()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cpu_s = _cpu_s() - started_cpu_s
    document = {
        "seconds": work.last_s - started_s,
        "cpu_s": cpu_s,
        "done": work.done,
        "distinct": len(work.bodies),
    }
    protocol.write(json.dumps(document) + "\n")
    protocol.flush()
    # Its own threads would keep it for minutes.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
