"""kombu's messages survive the way through a body of ours; anything else is told apart."""

import json
from typing import Any

import pytest
from mqclient.celery.messages import Document, Message, Unreadable, packed, prepared, unpacked


def document(body: str | bytes, **changes: Any) -> Document:
    parts: dict[str, Any] = {
        "priority": 5,
        "content_type": "application/json",
        "content_encoding": "utf-8",
        "headers": {"task": "shop.mail", "retries": 1},
        "properties": {"correlation_id": "task-1", "reply_to": "me"},
    }
    return prepared(body, **{**parts, **changes})


@pytest.mark.parametrize("body", ['{"a": "ü"}', "", b"\x00\xff binary", b""])
def test_a_message_comes_back_as_it_was_sent(body: str | bytes) -> None:
    stored = packed(document(body), "shop", "mail.fast").body

    message = Message(unpacked(stored), None, 7, is_redelivered=True)

    assert message.body == (body if isinstance(body, bytes) else body.encode())
    assert message.content_type == "application/json"
    assert message.content_encoding == "utf-8"
    assert message.headers == {"task": "shop.mail", "retries": 1}
    assert message.properties == {"correlation_id": "task-1", "reply_to": "me", "priority": 5}
    assert message.delivery_info == {
        "exchange": "shop", "routing_key": "mail.fast", "redelivered": True,
    }  # fmt: skip
    assert message.delivery_tag == 7


def test_text_is_stored_as_text_so_that_operators_can_read_it() -> None:
    stored = json.loads(packed(document("hello"), "", "mail").body)

    assert stored["body"] == "hello"


def test_a_message_without_a_priority_says_nothing_of_one() -> None:
    assert "priority" not in document("x", priority=None)["properties"]


def test_operators_find_a_task_by_its_id_and_its_name() -> None:
    stored = packed(document("x"), "", "mail")

    assert (stored.key, stored.tag) == ("task-1", "shop.mail")


@pytest.mark.parametrize("key", [None, "", "two words", "a\x01b", "k" * 256, 7, "\ud800"])
def test_an_id_that_cannot_be_a_key_is_none(key: Any) -> None:
    stored = packed(document("x", properties={"correlation_id": key}), "", "mail")

    assert stored.key is None


@pytest.mark.parametrize("tag", [None, "", "a|b", " a", "a\x02", "*", "t" * 256, 7])
def test_a_name_that_cannot_be_a_tag_is_none(tag: Any) -> None:
    assert packed(document("x", headers={"task": tag}), "", "mail").tag is None


def test_what_json_cannot_say_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(TypeError):
        packed(document("x", headers={"file": object()}), "", "mail")


@pytest.mark.parametrize(
    "stored",
    [
        b"\xff\xfe",
        b"hello",
        b"[]",
        b"7",
        b"{}",
        b'{"body": 1, "headers": {}, "properties": {}, "delivery_info": {}}',
        b'{"body": "x", "headers": [], "properties": {},'
        b' "delivery_info": {"exchange": "", "routing_key": "a"}}',
        b'{"body": "?", "body_encoding": "base64", "headers": {}, "properties": {},'
        b' "delivery_info": {"exchange": "", "routing_key": "a"}}',
        b"[" * 100_000,
    ],
    ids=lambda stored: stored[:20].decode("latin-1"),
)
def test_what_is_no_message_of_ours_is_told_apart(stored: bytes) -> None:
    with pytest.raises(Unreadable):
        unpacked(stored)
