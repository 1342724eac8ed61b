"""What operators and their tools ask: health, readiness, metrics, the API's description."""

import re

import pytest

from apps.doors.http import metrics, openapi
from apps.doors.http.app import create_app
from apps.doors.http.routing import ROWS
from apps.doors.http.settings import DoorSettings
from tests.doors.asgi import Client
from tests.doors.fake_engine import ManualClock

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

    assert (answer.status, answer.json()) == (200, {"status": "ready"})


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
    assert "rocketmq_topic_number 4" in lines


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


def test_label_values_are_escaped() -> None:
    hostile = 'a"b\\c\nd'
    metric = metrics.Metric("name", "gauge", "Text.", [({"topic": hostile}, 1)])

    text = metrics.render([metric])

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


@pytest.mark.parametrize("field", ["message_id", "offset", "store_time", "recall_handle"])
def test_the_schema_of_a_send_result_has_the_fields_of_the_contract(field: str) -> None:
    assert field in openapi.components()["schemas"]["SendResult"]["properties"]
