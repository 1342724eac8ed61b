"""`mq mirror` killed as it works: what it copies, how it is killed, what a copy must be.

Knows no topic: who uses it says where messages go and how copies are counted.
"""

import random
import signal
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from mqclient import Message, OutgoingMessage, Producer
from mqclient.rocketmq.translation import users_own

from tests.process.mirrors import Side, end, start
from tests.rounds import rounds

BATCH = 256
RECEIVE = 32
LEASE_S = 10
# Slow enough to be killed before its end, also where everything else is slow.
RATE = 200
SOMETIMES = [1, pytest.param(rounds(3), marks=pytest.mark.crash)]


def rng_of_run() -> random.Random:
    """Return random choices whose seed is printed."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return random.Random(seed)


def filled(
    side: Side, rng: random.Random, count: int, lane: Callable[[], tuple[str, dict[str, Any]]]
) -> dict[str, list[str]]:
    """Send messages, each to the lane that is drawn for it; return the ids of each, in order.

    A lane is its name and what a message of it says: topic, and sharding key if it has one.
    """
    sent: dict[str, list[str]] = defaultdict(list)
    # What is not synced nobody sees, and a mirror that runs once ends where the topic ended.
    with Producer(side.url, ack="sync", timeout_s=30) as producer:
        futures = []
        for number in range(count):
            name, where = lane()
            message = OutgoingMessage(
                body=rng.randbytes(rng.randrange(300)) or b"-",
                tag=rng.choice([None, "TagA", "Größe"]),
                keys=(f"order-{number}",),
                properties={"number": str(number), "text": "a 'b' \"c\" \u4e16\u754c"},
                **where,
            )
            futures.append((name, producer.send_message(message)))
        producer.flush()
        for name, future in futures:
            sent[name].append(future.result().message_id)
    return sent


def kill_runs(
    words: tuple[str, ...],
    server: Side,
    copies: Callable[[], int],
    rng: random.Random,
    *,
    kills: int,
    messages: int,
) -> None:
    """Run the mirror so often, and kill each run after some more copies are there."""
    for _ in range(kills):
        wanted = copies() + rng.randrange(20, 150)
        process = start(*words, "--rate", str(RATE), server=server)
        while copies() < wanted:
            assert process.poll() is None, "it ended before it could be killed"
        process.kill()
        assert end(process)[0] == -signal.SIGKILL
    assert copies() < messages


def assert_same(copy: Message, original: Message) -> None:
    """Raise AssertionError unless a copy says what its original says, but for its place."""
    assert copy.body == original.body
    assert (copy.tag, copy.keys) == (original.tag, original.keys)
    assert users_own(copy.properties) == users_own(original.properties)
    assert len(users_own(copy.properties)) == 2
    assert copy.born_time_ms == original.born_time_ms
