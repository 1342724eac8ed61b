"""What real consumers of a whole product did is what the jobs say that they did.

Each kind of consumer works on messages that it fails on purpose; then the jobs run as an operator
starts them, and every number of theirs is one that was counted here.
"""

import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mqclient import (
    Admin,
    AsyncLitePullConsumer,
    AsyncSimpleConsumer,
    Consumed,
    ListenerContext,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    SequenceNumbering,
    SimpleConsumer,
    TopicQueue,
)
from mqclient.clock import SystemClock
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import Endpoint
from mqclient.protocol.plans import Patience, persistently
from mqclient.transport.blocking import Pool
from mqclient.values import AckMode, Recalled
from mqclient.wire.ids import IDS
from mqclient.wire.properties import pack_properties, with_unique_key
from mqclient.wire.records import pack_record, topic_part

from tests.spark.operating import WAIT_S, Jobs
from tests.web.product import Product, wait_for

pytestmark = [pytest.mark.crash, pytest.mark.process, pytest.mark.spark_products]

pytest.importorskip("pyspark")

TOPICS = ("orders", "ledger", "jam", "reminders")
PLAIN, ONCE, TWICE, POISON, LATE, COPIED = 40, 4, 3, 2, 2, 2
STORED = PLAIN + ONCE + TWICE + POISON + LATE + 1 + 2 * COPIED
KINDS = {"plain": PLAIN, "once": ONCE, "twice": TWICE, "poison": POISON, "late": LATE, "stone": 1}
LEDGER, AGAIN, BEHIND, REMINDERS, RECALLED = 20, 5, 300, 3, 2


class Tally:
    """How often each message was done; a group is through when all are."""

    def __init__(self, wanted: int) -> None:
        self.tries: Counter[tuple[int, int]] = Counter()
        self.done: set[tuple[int, int]] = set()
        self.is_over = threading.Event()
        self._wanted = wanted
        self._lock = threading.Lock()

    def tried(self, place: tuple[int, int]) -> None:
        with self._lock:
            self.tries[place] += 1

    def ended(self, place: tuple[int, int]) -> None:
        with self._lock:
            self.done.add(place)
            if len(self.done) == self._wanted:
                self.is_over.set()

    @property
    def total(self) -> int:
        return self.tries.total()

    def wait(self) -> None:
        assert self.is_over.wait(WAIT_S), f"{len(self.done)} of {self._wanted}"


def _kind(message: Message) -> str:
    return message.body.decode().split("-")[0]


def _place(message: Message) -> tuple[int, int]:
    properties = message.properties
    return (
        int(properties.get("ORIGIN_QUEUE", message.queue)),
        int(properties.get("ORIGIN_OFFSET", message.queue_offset)),
    )


def _send_all(url: str) -> None:
    with Producer(url, idempotent=True, interceptors=[SequenceNumbering("till")]) as producer:
        for kind, count in KINDS.items():
            for number in range(count):
                producer.send("orders", f"{kind}-{number}", sharding_key=f"{kind}-{number}")
        for number in range(LEDGER):
            producer.send("ledger", f"plain-{number}", queue=number % 2)
        for number in range(BEHIND):
            producer.send_async("jam", f"plain-{number}")
        producer.flush()
        for number in range(REMINDERS):
            producer.send("reminders", f"plain-{number}", delay_ms=500)
        for number in range(RECALLED):
            later = producer.send("reminders", f"never-{number}", delay_ms=3_600_000)
            assert later.recall_handle is not None
            assert producer.recall(later.recall_handle) is Recalled.CANCELLED
    _send_copies(url)


def _send_copies(url: str) -> None:
    """Send messages again under their ids, as who does not know that the first was stored."""
    endpoint, clock = Endpoint.of(url, None), SystemClock()
    calls, pool = Calls(endpoint), Pool(endpoint, clock=clock)
    patience = Patience(clock=clock, backoff=Backoff(), timeout_s=10)
    for number in range(COPIED):
        now_ms = clock.wall_ms()
        properties = with_unique_key(pack_properties(), IDS.next(now_ms))
        body = f"copied-{number}".encode()
        record = pack_record(topic_part("orders"), 0, body, properties, now_ms, bytes(8))
        for _ in range(2):
            pool.run(persistently(calls.send_batch("orders", 0, [record], AckMode.SYNC), patience))
    pool.close()


def _bills(url: str) -> Tally:
    """Concurrent: some fail once or twice and then pass, some are sent to the dead letters."""
    tally = Tally(STORED)

    def listen(messages: list[Message], context: ListenerContext) -> Consumed:
        (message,) = messages
        kind, place = _kind(message), _place(message)
        tally.tried(place)
        if kind == "poison":
            if context.attempt == 3:
                context.delay_level = -1
                tally.ended(place)
            raise ValueError("cannot be billed")
        if kind == "once" and context.attempt == 1:
            raise ConnectionError("the till is away")
        if kind == "twice" and context.attempt < 3:
            return Consumed.RETRY_LATER
        tally.ended(place)
        return Consumed.SUCCESS

    with PushConsumer(url, group="bills", topics="orders", listener=listen, trace=True):
        tally.wait()
    return tally


def _ships(url: str) -> Tally:
    """Ordered: one message holds its queue up twice."""
    tally = Tally(STORED)

    def listen(messages: list[Message], context: ListenerContext) -> Consumed:
        (message,) = messages
        tally.tried(_place(message))
        if _kind(message) == "stone" and context.attempt < 3:
            raise KeyError("no such ship")
        tally.ended(_place(message))
        return Consumed.SUCCESS

    with PushConsumer(
        url, group="ships", topics="orders", listener=listen, ordered=True, suspend_ms=100,
        trace=True,
    ):  # fmt: skip
        tally.wait()
    return tally


def _mails(url: str) -> Tally:
    """Received: some are given back once, some are kept for too long."""
    tally = Tally(STORED)
    with SimpleConsumer("orders", "mails", url, wait_ms=200, trace=True) as consumer:
        while not tally.is_over.is_set():
            for message in consumer.receive():
                tally.tried(_place(message))
                is_first = tally.tries[_place(message)] == 1
                if _kind(message) == "once" and is_first:
                    consumer.nack(message, delay_ms=1_000)
                elif _kind(message) == "late" and is_first:
                    consumer.extend(message, invisible_ms=1_000)
                else:
                    consumer.ack(message)
                    tally.ended(_place(message))
    return tally


def _polls(url: str) -> None:
    """Polled: one reads all and commits nothing, another has all again, and some a third time."""
    with LitePullConsumer(url, group="polls", is_auto_commit=False, trace=True) as consumer:
        consumer.subscribe("ledger")
        _poll(consumer, LEDGER)
    with LitePullConsumer(url, group="polls", trace=True) as consumer:
        consumer.subscribe("ledger")
        _poll(consumer, LEDGER)
        consumer.commit()
        first = TopicQueue("ledger", 0)
        consumer.seek(first, LEDGER // 2 - AGAIN)
        _poll(consumer, AGAIN)


def _poll(consumer: LitePullConsumer, wanted: int) -> None:
    count = 0
    while count < wanted:
        count += len(consumer.poll(WAIT_S))
    assert count == wanted


async def _seeks(url: str) -> None:
    """Polled: four are wanted again before they are done, then the reader fails."""
    places = [TopicQueue("ledger", queue) for queue in range(2)]
    with suppress(LookupError):
        async with AsyncLitePullConsumer(url, group="seeks", trace=True) as consumer:
            await consumer.assign(places[:1])
            assert len(await consumer.poll(WAIT_S, messages_max=4)) == 4
            await consumer.seek(places[0], 0)
            assert len(await consumer.poll(WAIT_S, messages_max=4)) == 4
            await consumer.assign(places[1:])
            assert len(await consumer.poll(WAIT_S, messages_max=3)) == 3
            raise LookupError("no such account")


async def _reminded(url: str) -> None:
    async with AsyncSimpleConsumer("reminders", "reminded", url, trace=True) as consumer:
        count = 0
        while count < REMINDERS:
            messages = await consumer.receive()
            await consumer.ack(messages)
            count += len(messages)


def _jam(url: str, product: Product) -> int:
    """Ordered, and its first message never passes: return how often it failed."""
    tries: list[int] = []

    def listen(messages: list[Message], context: ListenerContext) -> Consumed:
        tries.append(context.attempt)
        raise OSError("the printer is out of paper")

    with PushConsumer(
        url, group="jam", topics="jam", listener=listen, ordered=True, suspend_ms=200, trace=True
    ):
        wait_for(lambda: len(_samples(product)) >= 3, WAIT_S)
    seen = len(_samples(product))
    wait_for(lambda: len(_samples(product)) >= seen + 2, WAIT_S)
    return len(tries)


def _samples(product: Product, seconds: int = 5) -> list[Any]:
    path = f"/api/v1/series/lag?group=jam&resolution={seconds}"
    _, _, answer = product.request("GET", path)
    return [point for point in answer["points"] if point["value"]]


@pytest.fixture
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    data = Path(tempfile.mkdtemp(prefix="mqweb-traced-"))
    product = Product(data, worker_processes=1, switches=["--spark"], MQWEB_SPARK_MEMORY="512m")
    yield product
    product.kill_everything()
    shutil.rmtree(data)


async def test_jobs_tell_what_consumers_did(product: Product) -> None:
    product.wait_until_ready()
    # A sample of a minute is of its begin.
    since_ms = SystemClock().wall_ms() // 60_000 * 60_000
    url = f"http://127.0.0.1:{product.port}"
    with Admin(url) as admin:
        for topic, queue_count in (("orders", 4), ("ledger", 2), ("jam", 1), ("reminders", 1)):
            admin.create_topic(topic, queue_count=queue_count)
    for group in ("bills", "mails"):
        decided = {"retry_policy": "custom", "retry_delays_ms": [200]}
        assert product.request("PUT", f"/api/v1/groups/{group}", decided)[0] in (200, 201)
    _send_all(url)
    bills, ships, mails = _bills(url), _ships(url), _mails(url)
    _polls(url)
    await _seeks(url)
    await _reminded(url)
    jammed = _jam(url, product)

    jobs = Jobs(product, since_ms, topics=TOPICS)
    # All of them have closed, and what they told is copied before it is counted.
    jobs.until_now()
    found = jobs.messages()
    worked = {"bills": bills.total, "ships": ships.total, "mails": mails.total, "jam": jammed}
    assert {group: found[group] for group in worked} == worked

    run = jobs.run("retries")
    assert jobs.counts("retries", run, "group", "attempts", "final", "messages") == [
        ("bills", 1, "done", STORED - ONCE - TWICE - POISON),
        ("bills", 2, "done", ONCE),
        ("bills", 3, "dead", POISON),
        ("bills", 3, "done", TWICE),
        ("jam", jammed, "open", 1),
        ("mails", 1, "done", STORED - ONCE - LATE),
        ("mails", 2, "done", ONCE + LATE),
        ("polls", 1, "done", LEDGER),
        ("reminded", 1, "done", REMINDERS),
        ("seeks", 1, "open", 3),
        ("seeks", 2, "done", 4),
        ("ships", 1, "done", STORED - 1),
        ("ships", 3, "done", 1),
    ]
    names = ("group", "error_class", "failures", "messages", "dead", "is_poison")
    assert jobs.counts("dead_causes", run, *names) == [
        ("bills", "ConnectionError", ONCE, ONCE, 0, False),
        ("bills", "ValueError", 3 * POISON, POISON, POISON, True),
        ("bills", "later", 2 * TWICE, TWICE, 0, False),
        ("jam", "OSError", jammed, 1, 0, False),
        ("mails", "later", ONCE, ONCE, 0, False),
        ("mails", "timeout", LATE, LATE, 0, False),
        ("seeks", "LookupError", 3, 3, 0, False),
        ("seeks", "later", 4, 4, 0, False),
        ("ships", "KeyError", 2, 1, 0, False),
    ]

    run = jobs.run("duplicates")
    repeats = ("kind", "group", "cause", "messages", "extra")
    assert jobs.counts("duplicate_totals", run, *repeats) == [
        ("consumed", "bills", "resend", COPIED, COPIED),
        ("consumed", "mails", "resend", COPIED, COPIED),
        ("consumed", "polls", "rebalance", LEDGER, LEDGER),
        ("consumed", "polls", "unknown", AGAIN, AGAIN),
        ("consumed", "ships", "resend", COPIED, COPIED),
        ("stored", "", "resend", COPIED, COPIED),
    ]

    run = jobs.run("delays")
    about = ("topic", "delay_level", "messages", "early", "cancelled")
    assert jobs.counts("delays", run, *about) == [("reminders", 0, REMINDERS, 0, RECALLED)]

    # Minutes are looked at, and one is there when it is over.
    wait_for(lambda: _samples(product, 60), WAIT_S)
    jobs.until_now()
    run = jobs.run("backlog")
    causes = {
        cause for (group, cause) in jobs.counts("backlog", run, "group", "cause") if group == "jam"
    }
    assert "failing" in causes
    # The first sample may come before the group is known to have a member, or after it has none.
    assert causes <= {"failing", "no_consumer", "unknown"}
