"""What lite topics cost the engine alone: `python -m benchmarks.lite`. Prints figures as JSON.

20,000 lite topics of one parent and ten clients with 2,000 of them each. Flush mode: messages are
written and synced by one `fdatasync` before they are read, and syncs are not part of any figure;
hand-outs and acknowledgements are events in the log, written and not synced. Times are processor
time, so that others on the machine count little.
"""

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from apps.engine.broker.core import Broker, open_broker
from apps.engine.clock import SystemClock
from apps.engine.codec.litenames import lite_topic
from apps.engine.config import EngineConfig
from apps.engine.failpoints import Failpoints
from apps.engine.files.posix import PosixDisk
from apps.engine.limits import LITE_SUBSCRIPTIONS_MAX, MIB
from apps.engine.litetypes import LiteAction, LiteSync
from apps.engine.testing.contracts.lite import handles_of, lite_batch
from apps.engine.types import CatalogSnapshot, ReceiveRequest, TopicSpec, TopicType

PARENT = TopicSpec(name="chats", queue_count=1, type=TopicType.LITE, lite_ttl_ms=900_000)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--topics", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=2_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        broker = open_broker(
            PosixDisk(Path(directory)),
            config=EngineConfig(segment_bytes=64 * MIB),
            clock=SystemClock(),
            failpoints=Failpoints(),
        )
        broker.publish_catalog(CatalogSnapshot(version=1, topics={PARENT.name: PARENT}))
        print(json.dumps(measured(broker, arguments.topics, arguments.rounds), indent=2))
        broker.close()


def measured(broker: Broker, topics: int, rounds: int) -> dict[str, float]:
    """Return the figures, in microseconds where nothing else is said."""
    names = [f"session-{number:08d}" for number in range(topics)]
    send(broker, "warm")
    found: dict[str, float] = {}
    before = peak_bytes()
    found["first send of a lite topic"] = each(names, lambda name: send(broker, name))
    found["memory of a lite topic, bytes"] = (peak_bytes() - before) / topics
    synced(broker)
    clients = [f"client-{n}" for n in range(-(-topics // LITE_SUBSCRIPTIONS_MAX))]
    sets = {
        client: names[n * LITE_SUBSCRIPTIONS_MAX : (n + 1) * LITE_SUBSCRIPTIONS_MAX]
        for n, client in enumerate(clients)
    }
    before = peak_bytes()
    found["sync of a whole set"] = each(clients, lambda client: say(broker, client, sets[client]))
    found["memory of a subscription, bytes"] = (peak_bytes() - before) / topics
    before = peak_bytes()
    for client in clients:
        while take(broker, client, 32):
            pass
    found["memory of a group's progress in a lite topic, bytes"] = (peak_bytes() - before) / topics
    found["sync of the same set again"] = each(
        clients, lambda client: say(broker, client, sets[client])
    )
    found["receive with nothing new"] = each(
        [clients[0]] * rounds, lambda client: take(broker, client, 32)
    )
    found[f"receive and acknowledge one, among {LITE_SUBSCRIPTIONS_MAX}"] = one_new(
        broker, sets[clients[0]], clients[0], rounds
    )
    say(broker, "small", names[:1], group="small")
    found["receive and acknowledge one, among 1"] = one_new(
        broker, names[:1], "small", rounds, group="small"
    )
    found |= of_lag(broker, names, rounds)
    pauses = []
    for _ in range(3):
        begun = time.process_time()
        _, write = broker.begin_checkpoint()
        pauses.append((time.process_time() - begun) * 1e3)
        broker.log.sync()
        write()
    found["pause of a checkpoint, ms"] = statistics.median(pauses)
    return {name: round(figure, 1) for name, figure in found.items()}


def of_lag(broker: Broker, names: list[str], rounds: int) -> dict[str, float]:
    """Return what it costs to say how far groups are behind, and to keep that known."""
    found: dict[str, float] = {}
    for name in names:
        send(broker, name)
    synced(broker)
    again = ["g"] * rounds
    found["lag of a group that is behind in all"] = each(again, broker.litelags.rows)
    found["its backlog by queue"] = each(again[:200], broker.backlog.rows)
    found["its progress by queue"] = each(again[:200], broker.offsets.progress)
    topic = lite_topic(PARENT.name, names[0])
    found["one lite topic counted again, for two groups"] = each(
        [topic] * rounds, broker.litelags.changed
    )
    before = peak_bytes()
    say(broker, "new", names[:1], group="new")
    answers: list[float] = []
    known: list[int | None] = [None]
    while known[-1] is None:
        answers.append(once(lambda: known.append(broker.litelags.rows("new")[0].lag)))
    found["answers until a new group is counted"] = len(answers)
    found["one of them"] = statistics.median(answers) * 1e6
    found["the longest of them"] = max(answers) * 1e6
    found["memory of a lite topic that a group is behind in, bytes"] = (
        peak_bytes() - before
    ) / len(names)
    return found


def once(act: Callable[[], object]) -> float:
    """Return the time of an act."""
    begun = time.process_time()
    act()
    return time.process_time() - begun


def each(items: list[str], act: Callable[[str], object]) -> float:
    """Return the median time of an act."""
    return statistics.median([once(partial(act, item)) for item in items]) * 1e6


def one_new(broker: Broker, names: list[str], client: str, rounds: int, group: str = "g") -> float:
    """Return the median time to receive and acknowledge one new message."""
    times = []
    for number in range(rounds):
        send(broker, names[number % len(names)])
        synced(broker)
        begun = time.process_time()
        assert take(broker, client, 32, group) >= 1
        times.append(time.process_time() - begun)
    return statistics.median(times) * 1e6


def send(broker: Broker, name: str) -> None:
    """Store one message of 100 bytes."""
    broker.appender.write(broker.appender.check([lite_batch(name, "x" * 100)]))


def synced(broker: Broker) -> None:
    """Let readers see what was sent."""
    broker.log.sync()
    broker.show_synced()


def say(broker: Broker, client: str, names: list[str], group: str = "g") -> None:
    """Have a client say its whole set."""
    broker.sync_lite(
        LiteSync(
            group=group,
            client_id=client,
            topic=PARENT.name,
            action=LiteAction.REPLACE,
            names=tuple(names),
        )
    )


def take(broker: Broker, client: str, most: int, group: str = "g") -> int:
    """Receive and acknowledge; return how many messages that were."""
    result = broker.receive(
        ReceiveRequest(
            group=group,
            topics=(PARENT.name,),
            client_id=client,
            messages_max=most,
            is_lite=True,
        )
    )
    if result.leases:
        broker.settler.ack(group, handles_of(result.leases))
    return sum(len(lease.block) for lease in result.leases)


def peak_bytes() -> int:
    """Return the most memory this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
