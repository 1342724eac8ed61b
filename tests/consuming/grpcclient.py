"""One client process of a run by RocketMQ's protocol: a producer, or a member of a group.

    python -m tests.consuming.grpcclient '{"role": "borrower", ...}'

It goes on until it is asked to end by SIGTERM. A `borrower` receives, has what it was given hidden
for a short time of its own, and acknowledges what it did; a `renewed` one leaves that time to the
broker, as push consumers do. Writes its own history.
"""

import json
import random
import signal
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from google.protobuf.duration_pb2 import Duration
from mqclient.rocketmq.protos import rocketmq_pb2 as pb
from mqclient.wire.hashing import queue_by_hash

from tests.consuming.client import TAGS, Orders
from tests.histories.events import Verb
from tests.histories.recorder import Recorder
from tests.outcomes.calls import Reply, body_of, digest_of, id_of
from tests.outcomes.grpccalls import GrpcTeller, settle

LEASE_MS = 2_000
# A receive may ask for no shorter one; it is changed at once.
_RECEIVE_S = 10
_WAIT_MS = 200
_BATCH = 8
# With less than this left a listener does not begin.
_LEFT_MS_MIN = 300
# What is held for no time is hard to be killed with.
_SLOWER = 20
_MS_NS = 1_000_000
# One in so many runs of a listener fails: its messages come again when their time is over.
_FAILED_OF, _FAILED_FIRST = 97, 5


class GrpcClient(GrpcTeller):
    """What a process does by its orders."""

    def __init__(self, orders: Orders, recorder: Recorder) -> None:
        """Be a client of that name."""
        super().__init__(orders.process, _no_http, recorder, f"127.0.0.1:{orders.port}")
        self._orders = orders
        self._rng = random.Random(orders.seed)
        self._runs = 0

    def produce(self, is_over: threading.Event) -> None:
        """Send the next steps of a few orders, each send once: what is unknown stays unknown."""
        orders, number = self._orders, 0
        while not is_over.wait(orders.pause_ms / 1_000):
            messages, told = [], []
            for _ in range(self._rng.randrange(1, 6)):
                id_ = f"{orders.process}-{number}"
                key, tag = f"{orders.process}-order-{number // 3 % 40}", TAGS[number % 3]
                messages.append(_message(orders.topic, id_, key, tag))
                told.append([id_, key, tag, digest_of(body_of(id_))])
                number += 1
            running = self.recorder.invoke(
                Verb.SEND, producer=orders.process, topic=orders.topic, messages=told
            )
            answer = self._send(messages)
            places = [queue_by_hash(key, orders.queues) for _, key, _, _ in told]
            entries = answer.entries if answer else []
            settle(
                running, None if answer is None else answer.status,
                places=[[at, entry.offset] for at, entry in zip(places, entries, strict=False)],
            )  # fmt: skip

    def consume(self, is_over: threading.Event, *, is_renewed: bool) -> None:
        """Receive, work on each queue's messages together, and settle them."""
        while not is_over.is_set():
            given = self._given(is_renewed=is_renewed)
            if not is_renewed:
                asked_ns = time.monotonic_ns()
                given = {queue: self._hidden(shown) for queue, shown in given.items()}
            for shown in given.values():
                if is_renewed:
                    self._listen(shown, {})
                    continue
                # Counted from before it was asked for, so never longer than the broker's.
                left_ms = LEASE_MS - (time.monotonic_ns() - asked_ns) // _MS_NS - 1
                if shown and left_ms >= _LEFT_MS_MIN:
                    self._listen(shown, {"invisible_ms": left_ms})

    def _given(self, *, is_renewed: bool) -> dict[int, list[dict[str, Any]]]:
        """Return what one receive was given, by queue, in order."""
        orders = self._orders
        request = pb.ReceiveMessageRequest(
            group=pb.Resource(name=orders.group),
            message_queue=pb.MessageQueue(topic=pb.Resource(name=orders.topic), id=-1),
            batch_size=_BATCH,
            auto_renew=is_renewed,
            invisible_duration=Duration(seconds=_RECEIVE_S),
            long_polling_timeout=Duration(nanos=_WAIT_MS * _MS_NS),
        )
        found: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for message in self._received(request):
            system = message.system_properties
            found[system.queue_id].append(
                {
                    "topic": orders.topic,
                    "queue": system.queue_id,
                    "offset": system.queue_offset,
                    "body": message.body.decode(),
                    "receipt_handle": system.receipt_handle,
                }
            )
        return found

    def _hidden(self, shown: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what is hidden for the time of this client; nothing behind what could not be."""
        for index, message in enumerate(shown):
            handle = message["receipt_handle"]
            self._hide(self._orders.group, message, LEASE_MS)
            if message["receipt_handle"] == handle:
                return shown[:index]
        return shown

    def _listen(self, shown: list[dict[str, Any]], lease: dict[str, int]) -> None:
        orders = self._orders
        running = self.recorder.invoke(
            Verb.DELIVER,
            group=orders.group,
            client=orders.process,
            topic=orders.topic,
            queue=shown[0]["queue"],
            messages=[[id_of(m["body"]), m["offset"], digest_of(m["body"])] for m in shown],
            **lease,
        )
        time.sleep(self._rng.uniform(0, _SLOWER * orders.pause_ms) / 1_000)
        self._runs += 1
        # What is renewed would come again in hours.
        is_failed = bool(lease) and self._runs % _FAILED_OF == _FAILED_FIRST
        running.ok(done=0 if is_failed else len(shown))
        if not is_failed:
            self.ack_all(orders.group, shown)


def _message(topic: str, id_: str, key: str, tag: str) -> pb.Message:
    system = pb.SystemProperties(
        message_id=id_, message_group=key, tag=tag, message_type=pb.FIFO, body_encoding=pb.IDENTITY
    )
    return pb.Message(
        topic=pb.Resource(name=topic), system_properties=system, body=body_of(id_).encode()
    )


def _no_http(method: str, path: str, document: object) -> Reply | None:
    raise AssertionError(f"{method} {path} is not asked by this protocol: {document}")


def main(orders: Orders) -> None:
    """Work until asked to end."""
    is_over = threading.Event()
    # Before the protocol's threads are there, which would take the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_set_at_end, args=(is_over,), name="end", daemon=True).start()
    with Recorder(Path(orders.history), orders.process) as recorder:
        client = GrpcClient(orders, recorder)
        if orders.role == "producer":
            client.produce(is_over)
        else:
            client.consume(is_over, is_renewed=orders.role == "renewed")
        client.close()


def _set_at_end(is_over: threading.Event) -> None:
    signal.sigwait({signal.SIGTERM})
    is_over.set()


if __name__ == "__main__":
    main(Orders(**json.loads(sys.argv[1])))
