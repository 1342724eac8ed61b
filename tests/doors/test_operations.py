"""What operators and their tools ask: health, readiness, metrics, the API's description."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from apps.console.preferences import THEME_COOKIE
from apps.core.languages import LANGUAGE_COOKIE
from apps.core.zones import ZONE_COOKIE
from apps.doors.guard import figures
from apps.doors.guard.clients import ClientLimits, ClientRates
from apps.doors.guard.connections import ConnectionRules, Connections
from apps.doors.http import metrics, openapi
from apps.doors.http.app import create_app
from apps.doors.http.inflight import InFlight
from apps.doors.http.pull import PARAMETERS
from apps.doors.http.routing import ROWS
from apps.doors.http.settings import DoorSettings
from apps.engine.clock import SystemClock
from apps.engine.grouptypes import QueueBacklog
from apps.engine.litetypes import LiteBacklog, LiteTotal
from apps.engine.retentiontypes import CompactionStatus
from tests.doors.asgi import Client, Response
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

SAMPLE = re.compile(r'[a-z_]+(\{[a-z_]+="(\\.|[^"\\])*"(,[a-z_]+="(\\.|[^"\\])*")*\})? -?[0-9]+')


async def test_a_process_without_an_engine_is_alive_and_not_ready(clock: ManualClock) -> None:
    client = Client(create_app(lambda: None, DoorSettings(), clock=clock))

    alive = await client.get("/healthz")
    ready = await client.get("/readyz")
    readings = await client.get("/metrics")

    assert (alive.status, alive.json()) == (200, {"status": "alive"})
    assert (ready.status, ready.code) == (503, "stopping")
    assert readings.status == 503


async def test_an_open_engine_is_ready(client: Client) -> None:
    answer = await client.get("/readyz")

    assert (answer.status, answer.json()) == (200, {"status": "ready", "room": "ok"})


async def test_metrics_count_what_came_in_and_what_is_left(client: Client) -> None:
    await client.post(
        "/api/v1/topics/single/messages",
        {"messages": [{"body": "x"}] * 5, "ack": "sync"},
    )
    received = await client.post(
        "/api/v1/groups/billing/messages:receive", {"topic": "single", "max": 3}
    )
    handle = received.json()["messages"][0]["receipt_handle"]
    await client.post("/api/v1/groups/billing/messages:ack", {"receipt_handles": [handle]})

    answer = await client.get("/metrics")

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.body.decode().splitlines()
    labels = 'consumer_group="billing",topic="single"'
    assert "rocketmq_messages_in_total 5" in lines
    assert "rocketmq_messages_out_total 3" in lines
    assert f"rocketmq_consumer_lag_messages{{{labels}}} 4" in lines
    assert f"rocketmq_consumer_inflight_messages{{{labels}}} 2" in lines
    assert f"rocketmq_consumer_ready_messages{{{labels}}} 2" in lines
    assert 'mqweb_queue_max_offset{topic="single",queue="0"} 5' in lines
    assert "rocketmq_topic_number 5" in lines


async def test_metrics_tell_what_each_queue_of_a_group_has_left(
    client: Client, clock: ManualClock
) -> None:
    for queue, count in ((0, 3), (1, 1)):
        messages = [{"body": "x", "queue": queue}] * count
        await client.post("/api/v1/topics/orders/messages", {"messages": messages, "ack": "sync"})
        clock.now_ms += 1000
    commits = [{"topic": "orders", "queue": queue, "offset": "1"} for queue in (0, 1)]
    await client.post("/api/v1/groups/billing/offsets:commit", {"offsets": commits})

    lines = (await client.get("/metrics")).body.decode().splitlines()

    labels = 'consumer_group="billing",topic="orders"'
    assert f'mqweb_queue_lag_messages{{{labels},queue="0"}} 2' in lines
    assert f'mqweb_queue_lag_messages{{{labels},queue="1"}} 0' in lines
    assert f'mqweb_queue_oldest_age_ms{{{labels},queue="0"}} 2000' in lines
    assert f"rocketmq_consumer_lag_messages{{{labels}}} 2" in lines
    assert f"rocketmq_consumer_lag_latency{{{labels}}} 2000" in lines
    # What has no oldest message has no age, and a zero would be one.
    assert not any(f'oldest_age_ms{{{labels},queue="1"}}' in line for line in lines)


async def test_metrics_count_members_locks_and_rebalances(
    client: Client, clock: ManualClock
) -> None:
    async def rebalances() -> int:
        lines = (await client.get("/metrics")).body.decode().splitlines()
        (line,) = [line for line in lines if line.startswith("mqweb_rebalances_total")]
        return int(line.split(" ")[1])

    before = await rebalances()
    subscribed = {"subscriptions": [{"topic": "orders"}]}
    for client_id in ("a", "b"):
        await client.post(f"/api/v1/groups/billing/members/{client_id}:heartbeat", subscribed)
    lock = {"client_id": "c", "queues": [{"topic": "single", "queue": 0}]}
    await client.post("/api/v1/groups/billing/locks:acquire", lock)
    await client.post("/api/v1/groups/lapsed/locks:acquire", lock)

    clock.now_ms += 59_999
    await client.post("/api/v1/groups/billing/locks:acquire", lock)
    clock.now_ms += 1
    lines = (await client.get("/metrics")).body.decode().splitlines()

    assert await rebalances() - before == 2
    assert 'mqweb_queue_locks{consumer_group="billing"} 1' in lines
    assert not any(line.startswith('mqweb_queue_locks{consumer_group="lapsed"') for line in lines)
    assert 'rocketmq_consumer_connections{consumer_group="billing"} 2' in lines


async def test_metrics_tell_of_delays_transactions_and_dead_letters(
    client: Client, clock: ManualClock
) -> None:
    def lines_of(answer: Response) -> list[str]:
        return answer.body.decode().splitlines()

    before = lines_of(await client.get("/metrics"))
    waiting = [{"body": "x", "delay_ms": wait_ms} for wait_ms in (10_000, 20_000, 30_000)]
    waiting.append({"body": "y", "delay_level": 3})
    sent = await client.post("/api/v1/topics/orders/messages", {"messages": waiting})
    handle = sent.json()["results"][0]["recall_handle"]
    await client.request("DELETE", f"/api/v1/delayed/{handle}")
    clock.now_ms += 20_000
    await client.get("/api/v1/topics/orders/queues/0/messages?offset=0&wait_ms=5000")
    ids = []
    for _ in range(3):
        begun = await client.post(
            "/api/v1/topics/single/transactions",
            {"message": {"body": "x"}, "producer_group": "tills"},
        )
        ids.append(begun.json()["transaction_id"])
    await client.post(f"/api/v1/transactions/{ids[0]}:commit")
    await client.post(f"/api/v1/transactions/{ids[1]}:rollback")
    await client.get("/api/v1/topics/single/queues/0/messages?offset=0&wait_ms=5000")
    failed = {"messages": [{"topic": "single", "queue": 0, "offset": 0}], "delay_level": -1}
    await client.post("/api/v1/groups/billing/messages:send-back", failed)
    await client.get("/api/v1/topics/%25DLQ%25billing/queues/0/messages?offset=0&wait_ms=5000")

    lines = lines_of(await client.get("/metrics"))

    assert "rocketmq_timing_messages 1" in lines
    assert "mqweb_delayed_delivered_total 1" in lines
    assert "mqweb_delayed_cancelled_total 1" in lines
    assert 'mqweb_delay_level_messages{level="3"} 1' in lines
    assert 'mqweb_delay_level_messages{level="18"} 0' in lines
    assert "rocketmq_half_messages 1" in lines
    assert "rocketmq_commit_messages_total 1" in lines
    assert "rocketmq_rollback_messages_total 1" in lines
    assert 'mqweb_dead_letters{consumer_group="billing"} 1' in lines
    # Nothing was late before anything was delivered.
    assert not any(line.startswith("mqweb_delay_lateness_ms ") for line in before)
    assert any(line.startswith("mqweb_delay_lateness_ms ") for line in lines)


def backlog_row(group: str, queue: int, *, age_ms: int | None, lag: int) -> QueueBacklog:
    return QueueBacklog(
        group=group, topic="orders", queue=queue, committed=0, delivered=0, max_offset=lag,
        in_flight=0, oldest_age_ms=age_ms, stalled_ms=None, head_attempts=None, owner=None,
        lock_epoch=None, lock_expires_in_ms=None,
    )  # fmt: skip


class Reading:
    """What an engine says, with a backlog of the test's choice."""

    def __init__(self, engine: Recorder, rows: list[QueueBacklog]) -> None:
        self._engine = engine
        self._rows = rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def backlog(self) -> list[QueueBacklog]:
        return self._rows


def samples_of(engine: Recorder, rows: list[QueueBacklog], name: str) -> list[metrics.Sample]:
    """Return the samples of one metric."""
    reading: Any = Reading(engine, rows)
    (found,) = [metric for metric in metrics.families(reading) if metric.name == name]
    return list(found.samples)


def test_an_age_nobody_knows_is_no_sample(engine: Recorder) -> None:
    rows = [
        backlog_row("cold", 0, age_ms=None, lag=5),
        backlog_row("done", 0, age_ms=None, lag=0),
        backlog_row("mixed", 0, age_ms=None, lag=5),
        backlog_row("mixed", 1, age_ms=70, lag=5),
        backlog_row("mixed", 2, age_ms=30, lag=5),
    ]

    latency = samples_of(engine, rows, "rocketmq_consumer_lag_latency")

    assert {labels["consumer_group"]: value for labels, value in latency} == {
        "done": 0,
        "mixed": 70,
    }


def test_lite_topics_are_told_once_for_their_parent(
    engine: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = LiteBacklog(
        group="phones", topic="inbox", arrived=2_000, lag=1_204, topics_behind=312, in_flight=4,
        ready=1_200, oldest_age_ms=40_000,
    )  # fmt: skip
    unknown = LiteBacklog(
        group="new", topic="inbox", arrived=2_000, lag=None, topics_behind=None, in_flight=None,
        ready=None, oldest_age_ms=None,
    )  # fmt: skip
    monkeypatch.setattr(engine, "lite_backlog", lambda: [unknown, known])
    # Somebody has read the parent's own queues, in which there is nothing.
    rows = [dataclasses.replace(backlog_row("phones", 0, age_ms=None, lag=0), topic="inbox")]

    found = {
        name: samples_of(engine, rows, name)
        for name in (
            "rocketmq_consumer_lag_messages",
            "rocketmq_consumer_inflight_messages",
            "rocketmq_consumer_ready_messages",
            "rocketmq_consumer_lag_latency",
            "mqweb_lite_topics_behind",
        )
    }

    labels = {"consumer_group": "phones", "topic": "inbox"}
    assert found == {
        name: [(labels, value)]
        for name, value in zip(found, (1_204, 4, 1_200, 40_000, 312), strict=True)
    }
    assert samples_of(engine, rows, "rocketmq_consumer_group_number") == [({}, 2)]


def test_what_lite_topics_took_and_hold_is_told_of_their_parent(
    engine: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = {"inbox": LiteTotal(came=300, held=2_000), "chats": LiteTotal(came=0, held=0)}
    monkeypatch.setattr(engine, "lite_totals", lambda: sums)

    assert samples_of(engine, [], "mqweb_lite_messages_in_total") == [
        ({"topic": "chats"}, 0),
        ({"topic": "inbox"}, 300),
    ]
    assert samples_of(engine, [], "mqweb_lite_held_messages") == [
        ({"topic": "chats"}, 0),
        ({"topic": "inbox"}, 2_000),
    ]


def test_a_metric_has_a_bounded_number_of_series_and_says_what_was_left_out(
    engine: Recorder,
) -> None:
    rows = [
        backlog_row(f"g{group}", queue, age_ms=1, lag=1)
        for group in range(6)
        for queue in range(1000)
    ]

    lag = samples_of(engine, rows, "mqweb_queue_lag_messages")
    left_out = samples_of(engine, rows, "mqweb_series_left_out")

    assert len(lag) == 5000
    assert {labels["consumer_group"] for labels, _ in lag} == {"g0", "g1", "g2", "g3", "g4"}
    assert left_out == [
        ({"metric": "mqweb_queue_lag_messages"}, 1000),
        ({"metric": "mqweb_queue_oldest_age_ms"}, 1000),
    ]
    assert samples_of(engine, rows[:5000], "mqweb_series_left_out") == []


async def test_metrics_are_well_formed(client: Client) -> None:
    await client.post("/api/v1/groups/billing/messages:receive", {"topic": "single"})

    text = (await client.get("/metrics")).body.decode()

    assert text.endswith("\n")
    named: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in named
            assert kind in ("counter", "gauge")
            named.add(name)
        elif not line.startswith("# HELP "):
            assert SAMPLE.fullmatch(line), line
            assert re.split(r"[ {]", line)[0] in named


def test_every_metric_is_explained_to_operators(
    engine: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = dataclasses.replace(engine.status(), compaction=CompactionStatus())
    monkeypatch.setattr(engine, "status", lambda: status)
    explained = Path(__file__).parents[2].joinpath("docs", "OPERATIONS.md").read_text()

    around = figures.families(
        Connections(ConnectionRules(), SystemClock()),
        ClientLimits(ClientRates(), SystemClock()),
        InFlight(1),
        None,
    )
    names = {metric.name for metric in (*metrics.families(engine), *around)}

    assert len(names) > 20
    assert {name for name in names if f"`{name}`" not in explained} == set()
    table = set(re.findall(r"`((?:mqweb|rocketmq)_[a-z_]+)`", explained))
    # Cookies of pages are named alike.
    assert table - names == {THEME_COOKIE, LANGUAGE_COOKIE, ZONE_COOKIE}


def test_label_values_are_escaped() -> None:
    hostile = 'a"b\\c\nd'
    metric = metrics.Metric("name", "gauge", "Text.", [({"topic": hostile}, 1)])

    text = metrics.render(metric)

    assert text.splitlines()[-1] == r'name{topic="a\"b\\c\nd"} 1'


def test_every_address_and_method_is_described() -> None:
    described = openapi.paths()

    assert set(described) == {row.path for row in ROWS}
    for row in ROWS:
        methods = {method.lower() for method in row.verbs if method != "HEAD"}
        assert set(described[row.path]) == methods


def test_operation_ids_are_unique() -> None:
    ids = [
        operation["operationId"] for item in openapi.paths().values() for operation in item.values()
    ]

    assert len(ids) == len(set(ids))


def test_every_path_parameter_is_described() -> None:
    for path, item in openapi.paths().items():
        for operation in item.values():
            described = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert described == set(re.findall(r"\{(\w+)\}", path))


def references(value: object) -> set[str]:
    """Collect every `$ref` below a value."""
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own.union(*map(references, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(references, value))
    return set()


def test_every_schema_that_is_referred_to_exists() -> None:
    components = openapi.components()

    found = references(openapi.paths()) | references(components)

    assert found
    assert found <= {f"#/components/schemas/{name}" for name in components["schemas"]}


def test_what_is_described_is_what_is_answered() -> None:
    described = openapi.paths()

    heartbeat = described["/api/v1/groups/{group}/members/{client_id}:heartbeat"]["post"]
    pull = described["/api/v1/topics/{topic}/queues/{queue}/messages"]["get"]
    leave = described["/api/v1/groups/{group}/members/{client_id}:leave"]["post"]
    assert {p["name"] for p in pull["parameters"] if p["in"] == "query"} == PARAMETERS
    assert "409" in pull["responses"]
    assert heartbeat["requestBody"]["required"] is True
    assert leave["requestBody"]["required"] is False
    blocked = openapi.components()["schemas"]["ReceiveAnswer"]["properties"]["blocked_by_lock"]
    assert len(blocked["items"]["anyOf"]) == 2


@pytest.mark.parametrize("field", ["message_id", "offset", "store_time", "recall_handle"])
def test_the_schema_of_a_send_result_has_the_fields_of_the_contract(field: str) -> None:
    assert field in openapi.components()["schemas"]["SendResult"]["properties"]


async def test_metrics_tell_of_refused_locks_blocked_queues_and_what_died(
    engine: Recorder,
) -> None:
    rows = [
        dataclasses.replace(backlog_row("stuck", 0, age_ms=1, lag=5), head_attempts=3, refusals=4),
        dataclasses.replace(backlog_row("stuck", 1, age_ms=1, lag=5), refusals=2),
        backlog_row("well", 0, age_ms=1, lag=5),
    ]

    blocked = samples_of(engine, rows, "mqweb_blocked_queues")
    refused = samples_of(engine, rows, "mqweb_lock_refusals_total")

    assert [(labels["consumer_group"], count) for labels, count in blocked] == [
        ("stuck", 1),
        ("well", 0),
    ]
    assert [(labels["consumer_group"], count) for labels, count in refused] == [
        ("stuck", 6),
        ("well", 0),
    ]
    assert samples_of(engine, rows, "rocketmq_broker_permission") == [({}, 6)]
