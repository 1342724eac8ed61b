"""A copy is known as what it is a copy of: by its id and its time of birth."""

import struct

import pytest
from mqclient import InvalidArgument, OutgoingMessage, Producer

from tests.sdk.fake_broker import FakeBroker, properties_of

ID = "01F0E1D2C3B4A5968778695A4B3C2D1E0F"


def test_a_message_that_has_an_id_and_a_time_of_birth_keeps_both(broker: FakeBroker) -> None:
    message = OutgoingMessage(topic="orders", body=b"b", message_id=ID, born_time_ms=12_345)

    with Producer(broker.url) as producer:
        result = producer.send_message(message).result()

    record = broker.queues["orders", result.queue][result.queue_offset or 0]
    assert result.message_id == ID
    assert properties_of(record)["UNIQ_KEY"] == ID
    assert struct.unpack_from(">q", record, 40) == (12_345,)


@pytest.mark.parametrize("message_id", ["", "a b", "\x01", "größe", "x" * 256])
def test_what_can_be_no_id_is_refused(broker: FakeBroker, message_id: str) -> None:
    message = OutgoingMessage(topic="orders", body=b"b", message_id=message_id)

    with Producer(broker.url) as producer, pytest.raises(InvalidArgument):
        producer.send_message(message)
