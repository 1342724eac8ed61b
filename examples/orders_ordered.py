"""An order is created, then paid, then shipped: every step of it is dealt with in this order.

    python examples/orders_ordered.py --server http://127.0.0.1:8000

Producers send the steps of many orders at once, each with the order's number as sharding key, so
that an order's steps lie in one queue. Members of a group, each a process of its own, consume in
order; one of them joins and one leaves while messages flow. At the end every step of every order is
compared with what the members did, and the exit code is 0 when all of it was in order.
"""

import argparse
import json
import multiprocessing
import queue
import random
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from typing import NamedTuple

from mqclient import Admin, Consumed, ListenerContext, Message, Producer, PushConsumer

STEPS = ("created", "paid", "shipped")
QUEUES = 4
_HOUR_MS = 3_600_000


class Handled(NamedTuple):
    """A step that a member dealt with. Times are the machine's, the same for all processes."""

    order: int
    step: str
    member: str
    queue: int
    began_s: float
    ended_s: float


def member(
    server: str, topic: str, name: str, work_s: float, handled: "Queue[Handled]", is_over: Event
) -> None:
    """Consume in order until told to stop. This is what an application would write."""

    def deal_with(messages: list[Message], context: ListenerContext) -> Consumed:
        for message in messages:
            began_s = time.monotonic()
            body = json.loads(message.body)
            time.sleep(work_s)
            place = context.queue.queue
            ended_s = time.monotonic()
            handled.put(Handled(body["order"], body["step"], name, place, began_s, ended_s))
        return Consumed.SUCCESS

    consumer = PushConsumer(
        server, group=f"{topic}-members", listener=deal_with, topics=topic, ordered=True
    )
    with consumer:
        is_over.wait()


def produce(server: str, topic: str, orders: Iterable[int], seed: int) -> None:
    """Send the steps of orders: those of one order one after the other, orders all mixed up."""
    rng = random.Random(seed)
    turns = [order for order in orders for _ in STEPS]
    rng.shuffle(turns)
    sent: dict[int, int] = defaultdict(int)
    with Producer(server) as producer:
        for order in turns:
            step = STEPS[sent[order]]
            sent[order] += 1
            body = json.dumps({"order": order, "step": step})
            producer.send(topic, body, tag=step, keys=str(order), sharding_key=str(order))


class Members:
    """The member processes, and what they have dealt with so far."""

    def __init__(self, server: str, topic: str, work_s: float) -> None:
        """Start none."""
        # A fresh interpreter each, so that nothing is shared but what is passed.
        self._context = multiprocessing.get_context("spawn")
        self._arguments = (server, topic, work_s)
        self._queue: Queue[Handled] = self._context.Queue()
        self._running: dict[str, tuple[BaseProcess, Event]] = {}
        self._count = 0
        self.handled: list[Handled] = []

    def join(self) -> None:
        """Start one more member."""
        self._count += 1
        name = f"member {self._count}"
        server, topic, work_s = self._arguments
        is_over = self._context.Event()
        arguments = (server, topic, name, work_s, self._queue, is_over)
        process = self._context.Process(target=member, args=arguments, name=name, daemon=True)
        process.start()
        self._running[name] = (process, is_over)
        print(f"{name} joins")

    def leave(self) -> None:
        """Ask the member that has been there longest to leave; it finishes what it has begun."""
        name = next(iter(self._running))
        process, is_over = self._running.pop(name)
        is_over.set()
        process.join(60)
        print(f"{name} leaves")

    def wait_until(self, distinct: int, deadline_s: float) -> bool:
        """Collect until so many different steps were dealt with; False when time is up."""
        while len({(one.order, one.step) for one in self.handled}) < distinct:
            left_s = deadline_s - time.monotonic()
            try:
                self.handled.append(self._queue.get(timeout=max(0.0, left_s)))
            except queue.Empty:
                return False
        return True

    def stop(self) -> None:
        """Let all members leave, and collect the last of what they did."""
        while self._running:
            self.leave()
        while True:
            try:
                self.handled.append(self._queue.get(timeout=0.5))
            except queue.Empty:
                return


def disorder(orders: int, handled: list[Handled]) -> list[str]:
    """List what was not in order: steps that are missing or early, and queues that two had at once.

    A step may come more than once, for delivery is at least once: the first time counts.
    """
    in_time = sorted(handled, key=lambda one: one.began_s)
    steps: defaultdict[int, list[str]] = defaultdict(list)
    for one in in_time:
        if one.step not in steps[one.order]:
            steps[one.order].append(one.step)
    found = [
        f"order {order}: {', '.join(steps[order]) or 'nothing'}"
        for order in range(orders)
        if steps[order] != list(STEPS)
    ]
    latest: dict[int, Handled] = {}
    for one in in_time:
        before = latest.get(one.queue)
        if before is not None and one.began_s < before.ended_s:
            found.append(f"queue {one.queue}: {before.member} and {one.member} at once")
        latest[one.queue] = one
    return found


def run(arguments: argparse.Namespace) -> int:
    """Send, consume, compare; return the exit code."""
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    server, total = arguments.server, arguments.orders * len(STEPS)
    deadline_s = time.monotonic() + arguments.timeout_s
    with Admin(server) as admin:
        # Unused for an hour, the broker deletes it by itself.
        admin.create_topic(topic, queue_count=QUEUES, topic_type="FIFO", expires_ms=_HOUR_MS)
    members = Members(server, topic, arguments.work_ms / 1_000)
    with ExitStack() as ending:
        ending.callback(members.stop)
        for _ in range(arguments.members):
            members.join()
        producers = [
            threading.Thread(
                target=produce,
                args=(server, topic, range(number, arguments.orders, arguments.producers), number),
            )
            for number in range(arguments.producers)
        ]
        for producer in producers:
            producer.start()
        is_complete = members.wait_until(total // 3, deadline_s)
        members.join()
        is_complete = is_complete and members.wait_until(2 * total // 3, deadline_s)
        members.leave()
        is_complete = is_complete and members.wait_until(total, deadline_s)
        for producer in producers:
            producer.join(60)

    found = disorder(arguments.orders, members.handled)
    handled, names = len(members.handled), {one.member for one in members.handled}
    again = handled - len({(one.order, one.step) for one in members.handled})
    print(f"topic {topic}: {arguments.orders} orders, {total} messages")
    print(f"{handled} steps dealt with by {len(names)} members, {again} of them again")
    for line in found[:10]:
        print(f"  {line}")
    if not is_complete:
        print(f"not all steps came within {arguments.timeout_s:.0f} s")
    is_ordered = is_complete and not found
    print("every order was created, paid, shipped" if is_ordered else "NOT IN ORDER")
    return 0 if is_ordered else 1


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--server", default="http://127.0.0.1:8000", help="address of mqweb")
    parser.add_argument("--orders", type=int, default=300, help="how many, of three steps each")
    parser.add_argument("--producers", type=int, default=2, help="threads that send")
    parser.add_argument("--members", type=int, default=3, help="processes that consume at first")
    parser.add_argument("--work-ms", type=float, default=20.0, help="what a step takes")
    parser.add_argument("--timeout-s", type=float, default=120.0, help="when to give up")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
