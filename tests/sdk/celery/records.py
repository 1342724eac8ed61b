"""Records and leases for tests, made as the broker's answers make them."""

from mqclient.celery.holding import Held
from mqclient.celery.messages import packed, prepared
from mqclient.wire.records import Lease, unpack_records

from tests.sdk.fake_broker import make_record


def body(text: str = "x", *, exchange: str = "", routing_key: str = "lane") -> bytes:
    """Return a stored message of kombu's."""
    document = prepared(
        text, priority=None, content_type="text/plain", content_encoding="utf-8", headers=None,
        properties=None,
    )  # fmt: skip
    return packed(document, exchange, routing_key).body


def held(offset: int, *, lane: str = "lane", token: str = "t-1", attempt: int = 1) -> Held:
    """Return one message of a lease of its own."""
    record = make_record(lane, 0, body(str(offset)))
    (message,) = unpack_records(record, 0, [len(record)], Lease(token, attempt, None, [offset]))
    message.queue_offset = offset
    return Held(message, lane, {"body": str(offset)})
