"""Consumer state events there and back, and what is not one."""

import dataclasses

import numpy as np
import pytest

from apps.engine.broker.journal import (
    Commit,
    Deliver,
    Event,
    Extend,
    Return,
    Settle,
    Trim,
    decode_event,
    encode_event,
)
from apps.engine.errors import StoreDamaged

RUNS = np.array([[3, 7], [9, 9]], dtype=np.int64)
EVENTS: list[Event] = [
    Deliver(
        group="g|%", topic="orders", queue=3, cursor_after=10, source=-1, attempt=1, epoch=2,
        until_ms=1_700_000_060_000, runs=RUNS,
    ),
    Settle(lease=5, runs=RUNS),
    Return(lease=5, visible_ms=1_700_000_000_000, runs=RUNS, reason="zu spät"),
    Extend(lease=1 << 40, epoch=7, until_ms=1, runs=RUNS[:0]),
    Commit(group="g", topic="t", queue=0, queue_offset=1 << 50),
    Trim(topic="t", queue=1, min_offset=12),
]  # fmt: skip


def plain(event: Event) -> dict[str, object]:
    values = {f.name: getattr(event, f.name) for f in dataclasses.fields(event)}
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_reads_back_as_written(event: Event) -> None:
    found = decode_event(encode_event(event))

    assert type(found) is type(event)
    assert plain(found) == plain(event)


def test_the_bytes_of_a_settlement_are_pinned() -> None:
    encoded = encode_event(Settle(lease=5, runs=RUNS))

    assert encoded.hex() == (
        "02" "0000000000000005" "00000002"
        "0000000000000003" "0000000000000007" "0000000000000009" "0000000000000009"
    )  # fmt: skip


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_shortened_event_is_damage_not_another_event(event: Event) -> None:
    encoded = encode_event(event)

    for length in range(len(encoded)):
        with pytest.raises(StoreDamaged):
            decode_event(encoded[:length])


def test_an_unknown_kind_is_damage() -> None:
    with pytest.raises(StoreDamaged):
        decode_event(b"\x07" + bytes(40))
