"""Delay levels as the product delivers them: the whole product with its own worker and beat.

Measured: how late messages of level 1 reach a consumer that waits, from the due time the broker
answered to the moment the client has them. Sends come evenly over many ticks of a second, so that
due times lie anywhere between two. Never early is checked for each message, and one that is missing
or comes twice is a fault. Not measured: the first seconds, in which worker and beat begin.
"""

import threading
import time
from collections.abc import Iterator

import mqclient
import numpy as np
from numpy.typing import NDArray

from benchmarks.ours import Mqweb
from benchmarks.readings import Reading, Work
from benchmarks.servers import HOST, ServerFailed
from benchmarks.settings import Settings, serving
from benchmarks.sides import PATIENCE_S, Durability

_RATE = 50
_SECONDS_MIN = 20.0
_WARM_S = 5.0
_LEVEL = 1
_TOPIC = "levels"


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield one reading a repetition and acknowledge mode."""
    ours = settings.sides[0]
    assert isinstance(ours, Mqweb)
    count = int(_RATE * max(settings.seconds, _SECONDS_MIN))
    for _ in range(settings.repetitions):
        for durability in Durability:
            late_ms, fault = np.zeros(0), ""
            try:
                with serving(settings, ours, durability):
                    late_ms = _late_ms(ours.mqweb_client().port, count)
            except (ServerFailed, AssertionError) as error:
                fault = str(error)
            yield _reading(late_ms, fault, durability, ours)


def _reading(
    late_ms: NDArray[np.float64], fault: str, durability: Durability, ours: Mqweb
) -> Reading:
    figures = {}
    if len(late_ms):
        figures = {
            "p50 ms": float(np.percentile(late_ms, 50)),
            "p99 ms": float(np.percentile(late_ms, 99)),
            "longest ms": float(late_ms.max()),
        }
    return Reading(
        work=Work(
            title=f"delay levels by beat: lateness at a waiting consumer, {durability}",
            headline="p99 ms",
            is_lower_better=True,
        ),
        side=ours.name,
        is_ours=True,
        terms=ours.terms(durability),
        count=len(late_ms),
        figures=figures,
        fault=fault,
    )


def _late_ms(port: int, count: int) -> NDArray[np.float64]:
    """Send and receive so many; return how late each came, float64[count] of ms."""
    server = f"http://{HOST}:{port}"
    with mqclient.Admin(server) as admin:
        admin.create_topic(_TOPIC, queue_count=1)
    time.sleep(_WARM_S)
    due_ms: dict[str, int] = {}
    came_ms: dict[str, float] = {}
    sending = threading.Thread(target=_send, args=(server, count, due_ms))
    sending.start()
    with mqclient.SimpleConsumer(
        _TOPIC, "bench", server, messages_max=1_000, wait_ms=int(PATIENCE_S * 1000)
    ) as consumer:
        while len(came_ms) < count and (messages := consumer.receive()):
            now_ms = time.time() * 1000
            for message in messages:
                number = message.body.decode()
                assert number not in came_ms, f"message {number} came twice"
                came_ms[number] = now_ms
            consumer.ack(messages)
    sending.join()
    assert len(came_ms) == count, f"{count - len(came_ms)} messages are missing"
    late_ms = np.array([came_ms[number] - due_ms[number] for number in due_ms])
    assert late_ms.min() >= 0, "a message came early"
    return late_ms


def _send(server: str, count: int, due_ms: dict[str, int]) -> None:
    """Send at an even pace; keep when the broker said each is due."""
    with mqclient.Producer(server, linger_ms=0.0) as producer:
        began_s = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began_s + number / _RATE - time.monotonic()))
            sent = producer.send(_TOPIC, str(number), delay_level=_LEVEL)
            assert sent.deliver_at_ms is not None
            due_ms[str(number)] = sent.deliver_at_ms
