"""One client process of a run: a producer, or a member of a group. Writes its own history.

    python -m tests.consuming.client '{"role": "ordered", ...}'

It goes on until it is asked to end by SIGTERM, and then ends in order. The roles `ordered` and
`concurrent` are push consumers of the client library behind a relay that writes down what passes;
`unlocked` reads the queues of a group without any lock, as nobody should.
"""

import hashlib
import http.client
import itertools
import json
import random
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mqclient import Consumed, ListenerContext, Message, PushConsumer, TopicQueue

from tests.consuming.relay import Answer, Relay
from tests.consuming.witness import Witness, complete
from tests.histories.events import Verb
from tests.histories.recorder import Recorder

TAGS = ("created", "paid", "shipped")
# A status of our own for a connection that nobody takes.
_NOBODY, _NOBODY_PAUSE_S = 421, 0.2
_PADDING = b"." * 200
# One in so many runs of a listener asks for its message again, once, from an early one on: a
# listener that fails is part of every day, and of every test.
_RETRIED_OF, _RETRIED_FIRST = 97, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a client process is told to do. `settings` are those of the push consumer."""

    role: str
    process: str
    history: str
    port: int
    topic: str
    group: str = ""
    queues: int = 0
    tags: tuple[str, ...] = ()
    seed: int = 0
    pause_ms: float = 0.0
    settings: dict[str, Any]


def digest_of(body: bytes) -> str:
    """Return what stands for a body in a history."""
    return hashlib.sha256(body).hexdigest()[:16]


def id_of(body: bytes) -> str:
    """Return the id that a producer wrote into a body."""
    return body.partition(b" ")[0].decode()


def main(orders: Orders) -> None:
    """Work until asked to end."""
    is_over = threading.Event()
    # A handler would run in the main thread alone, and a signal that comes right before a wait
    # without end, or that another thread takes, does not end that wait.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_set_at_end, args=(is_over,), name="end", daemon=True).start()
    with Recorder(Path(orders.history), orders.process) as recorder:
        match orders.role:
            case "producer":
                produce(orders, recorder, is_over)
            case "unlocked":
                consume_unlocked(orders, recorder, is_over)
            case _:
                consume(orders, recorder, is_over)


def _set_at_end(is_over: threading.Event) -> None:
    signal.sigwait({signal.SIGTERM})
    is_over.set()


def request(port: int, method: str, path: str, document: Any = None) -> Answer | None:
    """Make one request on a connection of its own; None is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    body = None if document is None else json.dumps(document)
    try:
        connection.connect()
    except ConnectionRefusedError:
        # Nobody was there: that this was not carried out is certain.
        return Answer(_NOBODY, b'{"code": "unreachable"}')
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return Answer(response.status, response.read())
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def produce(orders: Orders, recorder: Recorder, is_over: threading.Event) -> None:
    """Send batches of a few orders' next steps, each send once: what is unknown stays unknown."""
    rng = random.Random(orders.seed)
    number = 0
    while not is_over.wait(orders.pause_ms / 1_000):
        messages, told = [], []
        for _ in range(rng.randrange(1, 6)):
            id_ = f"{orders.process}-{number}"
            key, tag = f"{orders.process}-order-{number // 3 % 40}", TAGS[number % 3]
            body = id_.encode() + b" " + _PADDING
            messages.append({"body": body.decode(), "sharding_key": key, "tag": tag})
            told.append([id_, key, tag, digest_of(body)])
            number += 1
        sending = recorder.invoke(
            Verb.SEND, producer=orders.process, topic=orders.topic, messages=told
        )
        path = f"/api/v1/topics/{quote(orders.topic)}/messages"
        answer = request(orders.port, "POST", path, {"messages": messages})
        complete(sending, answer, _places)
        if answer is not None and answer.status == _NOBODY:
            # Thousands of sends to nobody would only outnumber those that show something.
            is_over.wait(_NOBODY_PAUSE_S)


def _places(document: Any) -> dict[str, Any]:
    return {"places": [[found["queue"], int(found["offset"])] for found in document["results"]]}


class Listener:
    """Writes down each run of itself, and now and then asks for a message again."""

    def __init__(self, orders: Orders, recorder: Recorder) -> None:
        """Listen for one client."""
        self._orders = orders
        self._recorder = recorder
        self._rng = random.Random(orders.seed)
        self._retried: set[str] = set()
        # Listeners run in threads, and one call of it gives one number.
        self._numbers = itertools.count()

    def __call__(self, messages: list[Message], context: ListenerContext) -> Consumed:
        """Work for a moment."""
        given = [(id_of(m.body), m.queue_offset, digest_of(m.body)) for m in messages]
        is_done = self.run(context.queue, given)
        return Consumed.SUCCESS if is_done else Consumed.RETRY_LATER

    def run(self, queue: TopicQueue, given: list[tuple[str, int, str]]) -> bool:
        """Work on messages of a queue; say whether they are done."""
        orders = self._orders
        running = self._recorder.invoke(
            Verb.DELIVER,
            group=orders.group,
            client=orders.process,
            topic=queue.topic,
            queue=queue.queue,
            messages=given,
        )
        time.sleep(self._rng.uniform(0, 2 * orders.pause_ms) / 1_000)
        first, _, _ = given[0]
        number = next(self._numbers)
        is_again = number % _RETRIED_OF == _RETRIED_FIRST and first not in self._retried
        self._retried.add(first)
        running.ok(done=0 if is_again else len(given))
        return not is_again


def consume(orders: Orders, recorder: Recorder, is_over: threading.Event) -> None:
    """Be a member of a group, as users are."""
    relay = Relay(orders.port, Witness(recorder))
    relay.start()
    wanted = " || ".join(orders.tags) or "*"
    consumer = PushConsumer(
        f"http://127.0.0.1:{relay.port}",
        group=orders.group,
        listener=Listener(orders, recorder),
        subscriptions={orders.topic: wanted},
        ordered=orders.role == "ordered",
        client_id=orders.process,
        **orders.settings,
    )
    with consumer:
        is_over.wait()


def consume_unlocked(orders: Orders, recorder: Recorder, is_over: threading.Event) -> None:
    """Read every queue of a topic from the group's progress on, without a lock or an epoch."""
    listener = Listener(orders, recorder)
    places = [{"topic": orders.topic, "queue": queue} for queue in range(orders.queues)]
    while not is_over.is_set():
        begun = request(
            orders.port, "POST", f"/api/v1/groups/{orders.group}/offsets:begin", {"queues": places}
        )
        if begun is None or begun.status != 200:
            is_over.wait(0.05)
            continue
        for row in json.loads(begun.body)["offsets"]:
            _read_unlocked(orders, recorder, listener, row["queue"], int(row["offset"]))


def _read_unlocked(
    orders: Orders, recorder: Recorder, listener: Listener, queue: int, offset: int
) -> None:
    path = f"/api/v1/topics/{quote(orders.topic)}/queues/{queue}/messages?offset={offset}&max=8"
    answer = request(orders.port, "GET", path)
    if answer is None or answer.status != 200:
        return
    for message in json.loads(answer.body)["messages"]:
        body = message["body"].encode()
        given = [(id_of(body), int(message["offset"]), digest_of(body))]
        if not listener.run(TopicQueue(orders.topic, queue), given):
            break
        offset = int(message["offset"]) + 1
    done = {"topic": orders.topic, "queue": queue, "offset": str(offset)}
    committing = recorder.invoke(
        Verb.COMMIT,
        group=orders.group,
        client=orders.process,
        offsets=[[orders.topic, queue, offset, None]],
    )
    path = f"/api/v1/groups/{orders.group}/offsets:commit"
    complete(committing, request(orders.port, "POST", path, {"offsets": [done]}))


if __name__ == "__main__":
    main(Orders(**json.loads(sys.argv[1])))
