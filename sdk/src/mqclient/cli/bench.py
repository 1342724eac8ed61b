"""`mq bench`: what this client reaches against this broker. Knows the faces and a clock."""

import argparse
import random
import sys

from mqclient.clock import SystemClock
from mqclient.consuming.simple import SimpleConsumer
from mqclient.producing.producer import Producer
from mqclient.values import AckMode

_SEND_MAX = 16_000
_RECEIVE_MAX = 4_000
_LAST_WAIT_MS = 500


def run(arguments: argparse.Namespace) -> None:
    """Measure one way and print the figures."""
    modes = {"produce": _produce, "consume": _consume, "ping": _ping}
    modes[arguments.mode](arguments)


def _producer(arguments: argparse.Namespace) -> Producer:
    return Producer(arguments.server, token=arguments.token, ack=AckMode(arguments.ack))


def _produce(arguments: argparse.Namespace) -> None:
    clock = SystemClock()
    body = random.randbytes(arguments.size)
    with _producer(arguments) as producer:
        start_s = clock.steady_s()
        for first in range(0, arguments.messages, _SEND_MAX):
            count = min(_SEND_MAX, arguments.messages - first)
            producer.send_many(arguments.topic, [body] * count)
        seconds = clock.steady_s() - start_s
    _say("produced", arguments.messages, arguments.messages * arguments.size, seconds)


def _consume(arguments: argparse.Namespace) -> None:
    clock = SystemClock()
    count = size_bytes = 0
    with SimpleConsumer(
        arguments.topic,
        arguments.group,
        arguments.server,
        token=arguments.token,
        wait_ms=_LAST_WAIT_MS,
    ) as consumer:
        start_s = last_s = clock.steady_s()
        while count < arguments.messages:
            messages = consumer.receive(min(_RECEIVE_MAX, arguments.messages - count))
            if not messages:
                break
            consumer.ack(messages)
            count += len(messages)
            size_bytes += sum(len(message.body) for message in messages)
            # What follows the last message is waiting for none to come.
            last_s = clock.steady_s()
    _say("consumed", count, size_bytes, last_s - start_s)


def _ping(arguments: argparse.Namespace) -> None:
    clock = SystemClock()
    body = random.randbytes(arguments.size)
    latencies_ms = []
    with _producer(arguments) as producer:
        producer.send(arguments.topic, body)
        start_s = before_s = clock.steady_s()
        for _ in range(arguments.messages):
            producer.send(arguments.topic, body)
            after_s = clock.steady_s()
            latencies_ms.append((after_s - before_s) * 1000)
            before_s = after_s
    _say("sent one by one", len(latencies_ms), len(latencies_ms) * len(body), before_s - start_s)
    latencies_ms.sort()
    p50, p99 = (latencies_ms[int(len(latencies_ms) * share)] for share in (0.5, 0.99))
    sys.stdout.write(f"p50 {p50:.3f} ms, p99 {p99:.3f} ms, max {latencies_ms[-1]:.3f} ms\n")


def _say(verb: str, count: int, size_bytes: int, seconds: float) -> None:
    per_s = count / seconds if seconds > 0 else 0.0
    mebibytes_per_s = size_bytes / seconds / 2**20 if seconds > 0 else 0.0
    sys.stdout.write(
        f"{verb} {count} messages of {size_bytes} bytes in {seconds:.3f} s:"
        f" {per_s:.0f} messages/s, {mebibytes_per_s:.1f} MiB/s\n"
    )
