"""Bad input of every kind gets the contract's problem document, and changes nothing."""

import asyncio
import json

import pytest

from tests.doors.asgi import RECORDS, Client, NoAnswer
from tests.doors.recorder import Recorder

SEND = "/api/v1/topics/single/messages"
RECEIVE = "/api/v1/groups/billing/messages:receive"
ACK = "/api/v1/groups/billing/messages:ack"
NACK = "/api/v1/groups/billing/messages:nack"
EXTEND = "/api/v1/groups/billing/messages:extend"
COMMIT = "/api/v1/groups/billing/offsets:commit"
BEGIN = "/api/v1/groups/billing/offsets:begin"
HEARTBEAT = "/api/v1/groups/billing/members/c:heartbeat"
ACQUIRE = "/api/v1/groups/billing/locks:acquire"
RELEASE = "/api/v1/groups/billing/locks:release"
SEND_BACK = "/api/v1/groups/billing/messages:send-back"
BEGIN_TRANSACTION = "/api/v1/topics/single/transactions"
COMMIT_TRANSACTION = "/api/v1/transactions/0.1-0:commit"
ROLL_BACK = "/api/v1/transactions/0.1-0:rollback"
CHECKS = "/api/v1/producer-groups/tills/checks:receive"
DELIVER_NOW = "/api/v1/delayed/h:deliver-now"
# Whose body may be left out.
SILENT = [COMMIT_TRANSACTION, ROLL_BACK, DELIVER_NOW]
POSTS = [
    SEND, RECEIVE, ACK, NACK, EXTEND, COMMIT, BEGIN, HEARTBEAT, ACQUIRE, RELEASE, SEND_BACK,
    BEGIN_TRANSACTION, CHECKS,
]  # fmt: skip

PROBLEM_FIELDS = {
    "type",
    "title",
    "status",
    "detail",
    "code",
    "retriable",
    "request_id",
    "errors",
}
DEEP = b"[" * 200_000
GOOD_COMMIT = {"topic": "single", "queue": 0, "offset": "0"}


def assert_untouched(engine: Recorder) -> None:
    """Assert that no verb was called: neither a send nor anything else."""
    assert engine.calls == []
    assert engine.status().appended_messages == 0


BAD_JSON = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"{", id="open"),
    pytest.param(b'{"messages": [{"body": "x"}]', id="cut"),
    pytest.param(b"{} {}", id="two documents"),
    pytest.param(b"{'messages': []}", id="quotes of Python"),
    pytest.param(b"\xff\xfe{\x00}\x00", id="UTF-16"),
    pytest.param(b"NaN", id="NaN"),
    pytest.param(b"{]", id="brackets crossed"),
]


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("body", BAD_JSON)
async def test_what_is_not_json_is_refused(
    client: Client, engine: Recorder, path: str, body: bytes
) -> None:
    answer = await client.post(path, body=body, headers={"content-type": "application/json"})

    assert (answer.status, answer.code) == (400, "bad_json")
    assert_untouched(engine)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"messages": [{"body": "\xff"}]}', id="bytes that are not UTF-8"),
        pytest.param(b'{"messages": [{"body": "\\ud800"}]}', id="half a surrogate pair"),
        pytest.param(b'{"messages": [{"body": "\x01"}]}', id="a control character"),
    ],
)
async def test_text_that_is_no_unicode_is_bad_json(
    client: Client, engine: Recorder, body: bytes
) -> None:
    answer = await client.post(SEND, body=body, headers={"content-type": "application/json"})

    assert (answer.status, answer.code) == (400, "bad_json")
    assert_untouched(engine)


WRONG_DOCUMENTS: list[tuple[str, object, str]] = [
    (SEND, [], ""),
    (SEND, None, ""),
    (SEND, {}, ""),
    (SEND, {"messages": []}, "/messages"),
    (SEND, {"messages": {}}, "/messages"),
    (SEND, {"messages": [{"body": "x"}, "y"]}, "/messages/1"),
    (SEND, {"messages": [{"body": 1}]}, "/messages/0/body"),
    (SEND, {"messages": [{"body": "x"}, {"body": ["y"]}]}, "/messages/1/body"),
    (SEND, {"messages": [{"body": "x", "tag": 1}]}, "/messages/0/tag"),
    (SEND, {"messages": [{"body": "x", "keys": "k"}]}, "/messages/0/keys"),
    (SEND, {"messages": [{"body": "x", "keys": [1]}]}, "/messages/0/keys/0"),
    (SEND, {"messages": [{"body": "x", "properties": {"a": 1}}]}, "/messages/0/properties"),
    (SEND, {"messages": [{"body": "x", "properties": [1]}]}, "/messages/0/properties"),
    (SEND, {"messages": [{"body": "x", "queue": "0"}]}, "/messages/0/queue"),
    (SEND, {"messages": [{"body": "x", "queue": True}]}, "/messages/0/queue"),
    (SEND, {"messages": [{"body": "x", "queue": 0.5}]}, "/messages/0/queue"),
    (SEND, {"messages": [{"body": "x", "producer_seq": -1}]}, "/messages/0/producer_seq"),
    (SEND, {"messages": [{"body": "x", "producer_seq": 2**63}]}, "/messages/0/producer_seq"),
    (SEND, {"messages": [{"body": "x", "colour": "red"}]}, "/messages/0"),
    (SEND, {"messages": [{"body": "x", "tag": "t" * 1025}]}, "/messages/0/tag"),
    (SEND, {"messages": [{"body": "x", "sharding_key": "k" * 1025}]}, "/messages/0/sharding_key"),
    (SEND, {"messages": [{"body": "x"}], "ack": "maybe"}, "/ack"),
    (SEND, {"messages": [{"body": "x"}], "acks": "sync"}, ""),
    (RECEIVE, {}, "/topic"),
    (RECEIVE, {"topic": "single", "topics": ["single"]}, "/topic"),
    (RECEIVE, {"topics": []}, "/topics"),
    (RECEIVE, {"topics": ["single"] * 65}, "/topics"),
    (RECEIVE, {"topic": 7}, "/topic"),
    (RECEIVE, {"topic": "single", "max": 0}, "/max"),
    (RECEIVE, {"topic": "single", "max": 16385}, "/max"),
    (RECEIVE, {"topic": "single", "max": "32"}, "/max"),
    (RECEIVE, {"topic": "single", "wait_ms": -1}, "/wait_ms"),
    (RECEIVE, {"topic": "single", "wait_ms": 30001}, "/wait_ms"),
    (RECEIVE, {"topic": "single", "invisible_ms": 9}, "/invisible_ms"),
    (RECEIVE, {"topic": "single", "invisible_ms": 43_200_001}, "/invisible_ms"),
    (RECEIVE, {"topic": "single", "filter_type": "XPATH"}, "/filter_type"),
    (RECEIVE, {"topic": "single", "filter": "t" * 4097}, "/filter"),
    (RECEIVE, {"topic": "single", "client_id": "c" * 256}, "/client_id"),
    (RECEIVE, {"topic": "single", "ordered": 1}, "/ordered"),
    (RECEIVE, {"topic": "single", "high_queue_first": "yes"}, "/high_queue_first"),
    (ACK, {}, ""),
    (ACK, {"receipt_handles": []}, "/receipt_handles"),
    (ACK, {"receipt_handles": "h"}, "/receipt_handles"),
    (ACK, {"receipt_handles": [1]}, "/receipt_handles/0"),
    (ACK, {"receipt_handles": ["h"] * 16_385}, "/receipt_handles"),
    (ACK, {"receipt_handles": ["h"], "epoch": -1}, "/epoch"),
    (ACK, {"receipt_handles": ["h"], "epoch": 2**53}, "/epoch"),
    (ACK, {"receipt_handles": ["h"], "epoch": "1"}, "/epoch"),
    (NACK, {"receipt_handles": ["h"], "epoch": 1.5}, "/epoch"),
    (EXTEND, {"receipt_handles": ["h"], "epoch": True}, "/epoch"),
    (NACK, {"receipt_handles": ["h"], "delay_ms": -1}, "/delay_ms"),
    (NACK, {"receipt_handles": ["h"], "delay_ms": 43_200_001}, "/delay_ms"),
    (NACK, {"receipt_handles": ["h"], "reason": 5}, "/reason"),
    (NACK, {"receipt_handles": ["h"], "reason": "r" * 1025}, "/reason"),
    (EXTEND, {"receipt_handles": ["h"], "invisible_ms": 0}, "/invisible_ms"),
    (COMMIT, {"offsets": []}, "/offsets"),
    (COMMIT, {"offsets": [{"topic": "single", "queue": 0}]}, "/offsets/0"),
    (COMMIT, {"offsets": [GOOD_COMMIT | {"offset": "-1"}]}, "/offsets/0/offset"),
    (COMMIT, {"offsets": [GOOD_COMMIT | {"offset": "1\n"}]}, "/offsets/0/offset"),
    (COMMIT, {"offsets": [GOOD_COMMIT | {"offset": "٣"}]}, "/offsets/0/offset"),
    (COMMIT, {"offsets": [GOOD_COMMIT | {"offset": str(2**63)}]}, "/offsets/0/offset"),
    (COMMIT, {"offsets": [GOOD_COMMIT | {"offset": -1}]}, "/offsets/0/offset"),
    (COMMIT, {"offsets": [GOOD_COMMIT | {"offset": 1.5}]}, "/offsets/0/offset"),
    (COMMIT, {"offsets": [GOOD_COMMIT, GOOD_COMMIT | {"queue": -1}]}, "/offsets/1/queue"),
    (COMMIT, {"offsets": [GOOD_COMMIT | {"epoch": -1}]}, "/offsets/0/epoch"),
    (COMMIT, {"offsets": [GOOD_COMMIT | {"epoch": 2**53}]}, "/offsets/0/epoch"),
    (COMMIT, {"offsets": [GOOD_COMMIT] * 1025}, "/offsets"),
    (COMMIT, {"offsets": [GOOD_COMMIT], "client_id": "c", "generation": -1}, "/generation"),
    (COMMIT, {"offsets": [GOOD_COMMIT], "generation": 7}, "/client_id"),
]


@pytest.mark.parametrize(("path", "document", "pointer"), WRONG_DOCUMENTS)
async def test_a_wrong_value_is_named_by_a_pointer(
    client: Client, engine: Recorder, path: str, document: object, pointer: str
) -> None:
    body = json.dumps(document).encode()

    answer = await client.post(path, body=body, headers={"content-type": "application/json"})

    assert (answer.status, answer.code) == (422, "invalid_argument")
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert error["detail"]
    assert_untouched(engine)


async def test_a_problem_document_has_the_fields_of_the_contract(client: Client) -> None:
    answer = await client.post(SEND, {"messages": []}, headers={"x-request-id": "mine-7"})

    document = answer.json()
    assert set(document) == PROBLEM_FIELDS
    assert document["status"] == answer.status
    assert document["retriable"] is False
    assert document["request_id"] == answer.headers["x-request-id"] == "mine-7"


async def test_nesting_cannot_exhaust_the_stack(client: Client, engine: Recorder) -> None:
    body = b'{"messages": ' + DEEP

    answer = await client.post(SEND, body=body, headers={"content-type": "application/json"})

    assert 400 <= answer.status < 500
    assert_untouched(engine)


async def test_a_hostile_field_name_is_not_echoed_at_length(client: Client) -> None:
    answer = await client.post(SEND, {"messages": [{"x" * 1_000_000: 1}]})

    assert answer.status == 422
    assert len(answer.body) < 2000


async def test_more_than_a_thousand_messages_are_too_many(client: Client, engine: Recorder) -> None:
    answer = await client.post(SEND, {"messages": [{"body": "x"}] * 1001})

    assert (answer.status, answer.code) == (413, "batch_too_large")
    assert_untouched(engine)


async def test_decoding_stops_at_the_first_message_too_many(
    client: Client, engine: Recorder
) -> None:
    """Sixteen mebibytes of empty messages were a gigabyte of objects before they were counted."""
    body = b'{"messages": [' + b"{}," * 1001 + b"and what follows is not even JSON"

    answer = await client.post(SEND, body=body, headers={"content-type": "application/json"})

    assert (answer.status, answer.code) == (413, "batch_too_large")
    assert_untouched(engine)


@pytest.mark.parametrize("path", SILENT)
@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"{", "application/json", "bad_json"),
        (b'{"by": "me"}', "application/json", "invalid_argument"),
        (b"[]", "application/json", "invalid_argument"),
        (b"{}", "text/plain", "unsupported_media_type"),
    ],
)
async def test_what_needs_no_body_takes_none_but_an_empty_document(
    client: Client, engine: Recorder, path: str, body: bytes, content_type: str, code: str
) -> None:
    answer = await client.post(path, body=body, headers={"content-type": content_type})

    assert answer.code == code
    assert_untouched(engine)


@pytest.mark.parametrize("query", ["ack=sync", "queue=1", "queue=99999", "x=1"])
async def test_a_query_that_messages_in_json_do_not_have_is_refused(
    client: Client, engine: Recorder, query: str
) -> None:
    # An ack in the query of a send in JSON was ignored: less was promised than was asked for.
    answer = await client.request(
        "POST", f"/api/v1/topics/orders/messages?{query}", document={"messages": [{"body": "x"}]}
    )

    assert (answer.status, answer.code) == (422, "invalid_argument")
    assert "append" not in engine.calls


@pytest.mark.parametrize("packing", ["gzip", "zstd", "GZIP", "identity, gzip"])
async def test_a_packed_body_is_refused_unread(
    client: Client, engine: Recorder, packing: str
) -> None:
    answer = await client.request(
        "POST", "/api/v1/topics/orders/messages", document={"messages": [{"body": "x"}]},
        headers={"content-encoding": packing},
    )  # fmt: skip

    assert (answer.status, answer.code) == (415, "unsupported_media_type")
    assert "append" not in engine.calls


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/api/v1/topics/nowhere/messages", {"messages": [{"body": "x"}]}),
        (RECEIVE, {"topic": "nowhere"}),
        (COMMIT, {"offsets": [GOOD_COMMIT | {"topic": "nowhere"}]}),
    ],
)
async def test_an_unknown_topic_is_not_found(
    client: Client, engine: Recorder, path: str, document: object
) -> None:
    answer = await client.post(path, document)

    assert (answer.status, answer.code) == (404, "unknown_topic")
    assert engine.group_progress() == []


async def test_a_topic_that_takes_no_messages_is_forbidden(
    client: Client, engine: Recorder
) -> None:
    answer = await client.post("/api/v1/topics/archive/messages", {"messages": [{"body": "x"}]})

    assert (answer.status, answer.code) == (403, "not_permitted")
    assert engine.status().appended_messages == 0


BAD_NAMES = ["a.b", "a%20b", "a%2Fb", "%00", "%FF", "%C3%BC", "a" * 128, "..", "a:b"]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/topics/{}/messages",
        "/api/v1/groups/{}/messages:ack",
        "/api/v1/groups/{}/members/c:heartbeat",
        "/api/v1/groups/{}/members/c:leave",
        "/api/v1/groups/{}/locks:acquire",
        "/api/v1/groups/{}/offsets:begin",
    ],
)
async def test_a_bad_name_in_the_path_is_refused(
    client: Client, engine: Recorder, path: str, name: str
) -> None:
    answer = await client.post(path.format(name), {"messages": [{"body": "x"}]})

    assert (answer.status, answer.code) == (422, "invalid_name")
    assert_untouched(engine)


@pytest.mark.parametrize("name", ["a b", "a/b", "", "ü", "a" * 128, "a\n"])
async def test_a_bad_topic_name_in_a_document_is_refused(
    client: Client, engine: Recorder, name: str
) -> None:
    receive = await client.post(RECEIVE, {"topics": ["single", name]})
    commit = await client.post(COMMIT, {"offsets": [GOOD_COMMIT | {"topic": name}]})

    assert (receive.status, receive.code) == (422, "invalid_name")
    assert receive.json()["errors"][0]["pointer"] == "/topics/1"
    assert (commit.status, commit.code) == (422, "invalid_name")
    assert commit.json()["errors"][0]["pointer"] == "/offsets/0/topic"
    assert_untouched(engine)


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/jsonx",
        "text/plain; application/json",
    ],
)
async def test_only_json_is_taken_for_json(
    client: Client, engine: Recorder, path: str, content_type: str
) -> None:
    """A page of another origin can post forms and text, but no JSON, without being asked."""
    answer = await client.post(
        path, body=b'{"messages": [{"body": "x"}]}', headers={"content-type": content_type}
    )

    assert (answer.status, answer.code) == (415, "unsupported_media_type")
    assert_untouched(engine)


@pytest.mark.parametrize(
    "content_type",
    ["application/json; charset=utf-8", "Application/JSON", 'application/json;charset="UTF-8"'],
)
async def test_json_may_say_that_it_is_utf_8(client: Client, content_type: str) -> None:
    answer = await client.post(
        SEND, body=b'{"messages": [{"body": "x"}]}', headers={"content-type": content_type}
    )

    assert answer.status == 201


async def test_a_binary_batch_is_not_taken_where_json_is_due(
    client: Client, engine: Recorder
) -> None:
    answer = await client.post(ACK, body=b"MQB1", headers={"content-type": RECORDS})

    assert (answer.status, answer.code) == (415, "unsupported_media_type")
    assert_untouched(engine)


async def test_a_client_that_leaves_before_the_end_of_its_body_stores_nothing(
    client: Client, engine: Recorder
) -> None:
    gone = asyncio.Event()
    gone.set()

    with pytest.raises(NoAnswer):
        await client.post(
            SEND,
            body=[b'{"messages": [{"body": "x"}', b"]}"],
            headers={"content-type": "application/json"},
            gone=gone,
            is_cut=True,
        )

    assert_untouched(engine)
