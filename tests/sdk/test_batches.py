"""The four binary documents of the wire, and what damage does to them."""

import struct

import pytest
from mqclient.errors import ProtocolViolation
from mqclient.values import PullStatus
from mqclient.wire.batches import pack_batch, unpack_appended, unpack_pulled, unpack_received

from tests.sdk.fake_broker import make_batch, make_record, split_batch, text

RECORDS = [make_record("T", 0, body) for body in (b"one", b"", b"three" * 100)]
PULLED = struct.pack(">4sIqqq", b"MQP1", 0, 8, 2, 9) + make_batch(RECORDS)


def received() -> bytes:
    lease = text("1f-0a") + text("T") + struct.pack(">IIq", 5, 2, 99_000) + make_batch(RECORDS)
    return struct.pack(">4sII", b"MQR1", 1, 1) + lease + text("T") + struct.pack(">I", 3)


def test_a_batch_is_read_by_another_implementation() -> None:
    head, payload = pack_batch(RECORDS)

    assert split_batch(head + payload) == RECORDS


def test_a_pull_answer_is_read() -> None:
    pulled = unpack_pulled(PULLED)

    assert pulled.status is PullStatus.FOUND
    assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (8, 2, 9)
    assert [message.body for message in pulled.messages] == [b"one", b"", b"three" * 100]


@pytest.mark.parametrize("number", range(4))
def test_every_pull_status_has_its_number(number: int) -> None:
    pulled = unpack_pulled(struct.pack(">4sIqqq", b"MQP1", number, 0, 0, 0) + make_batch([]))

    assert pulled.status is list(PullStatus)[number]
    assert pulled.messages == []


def test_a_receive_answer_is_read() -> None:
    answer = unpack_received(received())

    assert [message.receipt_handle for message in answer.messages] == ["1f-0a:0"] * 3
    assert answer.messages[0].delivery_attempt == 2
    assert answer.blocked == (("T", 3),)


def test_an_answer_to_a_send_is_read() -> None:
    receipt = unpack_appended(struct.pack(">4sIqq", b"MQA1", 2, 1 << 40, 77))

    assert (receipt.count, receipt.queue_offset, receipt.store_time_ms) == (2, 1 << 40, 77)


@pytest.mark.parametrize("length", range(len(PULLED)))
def test_a_pull_answer_cut_anywhere_is_refused(length: int) -> None:
    with pytest.raises(ProtocolViolation):
        unpack_pulled(PULLED[:length])


def test_a_receive_answer_cut_anywhere_is_refused() -> None:
    whole = received()

    for length in range(len(whole)):
        with pytest.raises(ProtocolViolation):
            unpack_received(whole[:length])


def test_bytes_behind_an_answer_are_refused() -> None:
    with pytest.raises(ProtocolViolation):
        unpack_pulled(PULLED + b"\0")


@pytest.mark.parametrize("position", range(36, len(PULLED), 7))
def test_a_flipped_bit_in_a_batch_is_found(position: int) -> None:
    damaged = bytearray(PULLED)
    damaged[position] ^= 1

    with pytest.raises(ProtocolViolation):
        unpack_pulled(bytes(damaged))


def test_an_unknown_pull_status_is_refused() -> None:
    with pytest.raises(ProtocolViolation):
        unpack_pulled(struct.pack(">4sIqqq", b"MQP1", 4, 0, 0, 0) + make_batch([]))
