"""A receive and an acknowledgement over many queues are written once, whole or not at all."""

import pytest

from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import decode_record
from apps.engine.errors import StoreFull
from apps.engine.types import ReceiveResult, Settled
from tests.engine.broker.brokerbench import BrokerBench

_QUEUES = 4


@pytest.fixture
def bench() -> BrokerBench:
    """Return a broker whose topic has four messages in each of four queues."""
    bench = BrokerBench(orders_queue_count=_QUEUES)
    for queue in range(_QUEUES):
        bench.send(4, queue=queue)
    return bench


def _frames(bench: BrokerBench, log_offset: int) -> int:
    return sum(1 for _ in bench.broker.log.frames(log_offset))


def _places(result: ReceiveResult) -> list[tuple[int, int]]:
    found = []
    for lease in result.leases:
        payload = bytes(lease.block.payload)
        starts = starts_of(lease.block.sizes).tolist()
        for start, size in zip(starts, lease.block.sizes.tolist(), strict=True):
            record = decode_record(payload[start : start + size])
            found.append((lease.block.queue, record.queue_offset))
    return found


def _handles(result: ReceiveResult) -> list[str]:
    return [f"{lease.token}:0-{len(lease.block) - 1}" for lease in result.leases]


def test_messages_of_four_queues_are_handed_out_by_one_frame(bench: BrokerBench) -> None:
    end = bench.broker.log.written_offset

    result = bench.receive()

    assert sorted(_places(result)) == [(queue, n) for queue in range(_QUEUES) for n in range(4)]
    assert len({lease.token for lease in result.leases}) == _QUEUES
    assert _frames(bench, end) == 1


def test_leases_of_four_queues_are_settled_by_one_frame(bench: BrokerBench) -> None:
    result = bench.receive()
    end = bench.broker.log.written_offset

    settled = bench.broker.settler.ack("g", _handles(result))

    assert [one.outcome for one in settled] == [Settled.OK] * _QUEUES
    assert _frames(bench, end) == 1
    assert not bench.receive().leases


def test_given_back_messages_and_new_ones_of_one_queue_come_in_one_receive(
    bench: BrokerBench,
) -> None:
    first = bench.receive(most=2)
    queue = first.leases[0].block.queue
    bench.broker.settler.nack("g", _handles(first), delay_ms=0)

    again = bench.receive()

    assert sorted(_places(again)) == [(queue, n) for queue in range(_QUEUES) for n in range(4)]
    attempts = {(place, lease.attempt) for lease in again.leases for place in [lease.block.queue]}
    assert attempts >= {(queue, 1), (queue, 2)}


def test_a_topic_that_is_named_twice_is_read_once(bench: BrokerBench) -> None:
    result = bench.receive(topics=("orders", "orders"))

    places = _places(result)
    assert len(places) == len(set(places)) == 4 * _QUEUES


def test_a_receive_that_cannot_be_recorded_hands_out_nothing(
    bench: BrokerBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StoreFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr(bench.broker.appender, "write", refuse)
        with pytest.raises(StoreFull):
            bench.receive()

    assert len(_places(bench.receive())) == 4 * _QUEUES


def test_a_restart_knows_the_leases_of_one_frame_apart(bench: BrokerBench) -> None:
    result = bench.receive()
    bench.broker.settler.ack("g", _handles(result)[:2])
    bench.sync()
    bench.restart()

    bench.clock.advance(3_600_000)
    again = bench.receive()

    gone = {lease.block.queue for lease in result.leases[:2]}
    assert {queue for queue, _ in _places(again)} == set(range(_QUEUES)) - gone
