"""Reminders that come when they are due: never early, some taken back, one sent before its time.

    python examples/reminders.py --server http://127.0.0.1:8000

Sends reminders with delays of their own and at a delay level, cancels some of them, asks for one of
next year at once, and compares what a consumer was given with what was wanted. The exit code is 0
when nothing came early, twice, or though it was cancelled, and nothing is missing.
"""

import argparse
import random
import sys
import time
import uuid
from collections.abc import Iterator
from typing import NamedTuple

from mqclient import Admin, Producer, Recalled, SendResult, SimpleConsumer

LEVEL = 1
_LEVEL_MS = 1_000
_DELAYS_MS = (100, 3_000)
_HOUR_MS = 3_600_000
_YEAR_MS = 365 * 24 * _HOUR_MS


class Reminder(NamedTuple):
    """What was asked for. `due_ms` is a wall time, None where it is not to come at all."""

    text: str
    due_ms: int | None


def now_ms() -> int:
    """Return the wall time, rounded down."""
    return time.time_ns() // 1_000_000


def send(producer: Producer, topic: str, count: int, rng: random.Random) -> Iterator[Reminder]:
    """Send reminders, and take back every fifth."""
    for number in range(count):
        text, delay_ms = f"reminder {number}", rng.randrange(*_DELAYS_MS)
        # Before the request leaves: it is not due earlier than this, by the same clock.
        asked_ms = now_ms()
        if number % 7 == 0:
            producer.send(topic, text, delay_level=LEVEL)
            yield Reminder(text, asked_ms + _LEVEL_MS)
            continue
        sent = producer.send(topic, text, delay_ms=delay_ms)
        is_cancelled = number % 5 == 0 and recall(producer, sent) is Recalled.CANCELLED
        yield Reminder(text, None if is_cancelled else asked_ms + delay_ms)


def recall(producer: Producer, sent: SendResult) -> Recalled:
    """Take a message back; what has come already is DELIVERED, and that is as good an answer."""
    assert sent.recall_handle is not None
    return producer.recall(sent.recall_handle)


def send_for_next_year(producer: Producer, topic: str) -> Reminder:
    """Send a message that is due in a year, and have it delivered now."""
    asked_ms = now_ms()
    sent = producer.send(topic, "next year", deliver_at=asked_ms + _YEAR_MS)
    assert sent.recall_handle is not None
    print(f"next year's reminder: {producer.deliver_now(sent.recall_handle)}")
    return Reminder("next year", asked_ms)


def receive(consumer: SimpleConsumer, count: int, timeout_s: float) -> dict[str, list[int]]:
    """Return when each reminder came; wait for so many, and a little for any that must not."""
    came: dict[str, list[int]] = {}
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s:
        messages = consumer.receive(wait_ms=1_000)
        for message in messages:
            came.setdefault(message.body.decode(), []).append(now_ms())
        if messages:
            consumer.ack(messages)
        elif len(came) >= count:
            break
    return came


def faults(wanted: list[Reminder], came: dict[str, list[int]]) -> list[str]:
    """List what was not as it was asked for."""
    found = []
    for reminder in wanted:
        times = came.get(reminder.text, [])
        if reminder.due_ms is None:
            found += [f"{reminder.text}: came though it was cancelled"] * len(times)
        elif len(times) != 1:
            found.append(f"{reminder.text}: came {len(times)} times")
        elif times[0] < reminder.due_ms:
            found.append(f"{reminder.text}: came {reminder.due_ms - times[0]} ms early")
    return found


def run(arguments: argparse.Namespace) -> int:
    """Send, receive, compare; return the exit code."""
    topic = f"reminders-{uuid.uuid4().hex[:8]}"
    with Admin(arguments.server) as admin:
        # Unused for an hour, the broker deletes it by itself.
        admin.create_topic(topic, topic_type="DELAY", expires_ms=_HOUR_MS)
    with Producer(arguments.server) as producer:
        wanted = list(send(producer, topic, arguments.reminders, random.Random(arguments.seed)))
        wanted.append(send_for_next_year(producer, topic))
    expected = sum(reminder.due_ms is not None for reminder in wanted)
    with SimpleConsumer(topic, f"{topic}-readers", arguments.server) as consumer:
        came = receive(consumer, expected, arguments.timeout_s)
    found = faults(wanted, came)
    late_ms = [
        times[0] - reminder.due_ms
        for reminder in wanted
        if reminder.due_ms is not None and (times := came.get(reminder.text))
    ]
    print(f"{len(wanted)} sent, {len(wanted) - expected} cancelled, {len(came)} came")
    print(f"latest {max(late_ms, default=0)} ms after its time")
    for line in found[:10]:
        print(f"  {line}")
    print("every reminder came when it was due" if not found else "NOT AS ASKED FOR")
    return 0 if not found else 1


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--server", default="http://127.0.0.1:8000", help="address of mqweb")
    parser.add_argument("--reminders", type=int, default=60, help="how many are sent")
    parser.add_argument("--seed", type=int, default=0, help="of the delays")
    parser.add_argument("--timeout-s", type=float, default=60.0, help="when to give up")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
