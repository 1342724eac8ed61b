"""Consumer state events there and back, and what is not one."""

import dataclasses

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from apps.engine.broker.careevents import GivenUpSent, PutOff, Resent, Retired, SentBack
from apps.engine.broker.journal import (
    Assigned,
    Commit,
    Deliver,
    Event,
    Extend,
    LockGranted,
    LockReleased,
    Renew,
    Return,
    Settle,
    Trim,
    decode_event,
    encode_event,
)
from apps.engine.broker.liteevents import LiteExpired, LiteForgotten
from apps.engine.broker.lockevents import LockExpired
from apps.engine.broker.operatorevents import HeadPassed, OffsetReset, QueueSuspended
from apps.engine.errors import StoreDamaged
from apps.engine.grouptypes import LockChange

RUNS = np.array([[3, 7], [9, 9]], dtype=np.int64)
EVENTS: list[Event] = [
    Deliver(
        group="g|%", topic="orders", queue=3, cursor_after=10, source=-1, attempt=1, epoch=2,
        until_ms=1_700_000_060_000, runs=RUNS,
    ),
    Deliver(
        group="g", topic="%RETRY%g", queue=0, cursor_after=10, source=4, attempt=2, epoch=2,
        until_ms=1, runs=RUNS, failures_before=3, client_id="é",
    ),
    SentBack(group="g", topic="t", queue=7, runs=RUNS),
    Resent(group="g", by="ann", runs=RUNS),
    GivenUpSent(given_up_offset=1 << 40, by="ann", topic="t", queue=3, queue_offset=9),
    QueueSuspended(group="g", topic="t", queue=3, is_suspended=True, by="ann", reason="zu spät"),
    HeadPassed(
        group="g", topic="t", queue=3, queue_offset=1 << 40, is_parked=True, fence=1 << 52,
        by="ann", reason="",
    ),
    OffsetReset(
        group="g", topic="t", queue=3, queue_offset=7, before=1 << 40, fence=5, reset_id="r",
    ),
    LiteExpired(topic="%LITE%chats|ann", min_offset=1 << 40, log_offset=1 << 50),
    LiteForgotten(topic="%LITE%chats|ann"),
    Settle(lease=5, runs=RUNS),
    Return(lease=5, visible_ms=1_700_000_000_000, runs=RUNS, reason="zu spät"),
    PutOff(lease=1 << 40, visible_ms=1_700_000_000_000, runs=RUNS),
    Extend(lease=1 << 40, epoch=7, until_ms=1, runs=RUNS[:0]),
    Renew(lease=1 << 40, until_ms=1_700_000_060_000),
    Commit(group="g", topic="t", queue=0, queue_offset=1 << 50),
    Trim(topic="t", queue=1, min_offset=12),
    Retired(topic="t", queue=1, min_offset=1 << 40),
    Assigned(
        group="g", generation=(3 << 32) + 1, reason="join", strategy="AVG", content='{"c":"ä"}'
    ),
    LockGranted(
        group="g", topic="t", queue=7, owner="10.0.0.1@3#é", epoch=1 << 52, reason="expired"
    ),
    LockReleased(
        group="g", topic="t", queue=7, epoch=1 << 52, change=LockChange.FORCED, reason="stuck"
    ),
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


def test_the_bytes_of_a_lock_are_pinned() -> None:
    place = {"group": "g", "topic": "t", "queue": 7}
    granted = encode_event(LockGranted(**place, owner="c", epoch=5, reason=""))
    released = encode_event(LockReleased(**place, epoch=5, change=LockChange.FORCED, reason="x"))

    assert granted.hex() == "080001670001740000000700016300000000000000050000"
    assert released.hex() == "0900016700017400000007000000000000000501000178"
    expired = encode_event(LockExpired(**place, epoch=5, late_ms=258))
    assert expired.hex() == "180001670001740000000700000000000000050000000000000102"


names = st.text(max_size=300)
fences = st.integers(0, 2**53 - 1)
queues = st.integers(0, 2**32 - 1)


@given(
    st.one_of(
        st.builds(
            Assigned,
            group=names,
            generation=fences,
            reason=names,
            strategy=names,
            content=st.one_of(names, st.just("x" * 70_000)),
        ),
        st.builds(
            LockGranted,
            group=names,
            topic=names,
            queue=queues,
            owner=names,
            epoch=fences,
            reason=names,
        ),
        st.builds(
            LockReleased,
            group=names,
            topic=names,
            queue=queues,
            epoch=fences,
            change=st.sampled_from([LockChange.RELEASED, LockChange.FORCED]),
            reason=names,
        ),
        st.builds(
            LockExpired,
            group=names,
            topic=names,
            queue=queues,
            epoch=fences,
            late_ms=st.integers(0, 2**53),
        ),
    )
)
def test_any_assignment_and_lock_reads_back_as_written(event: Event) -> None:
    assert decode_event(encode_event(event)) == event


@given(st.binary(max_size=60))
def test_bytes_are_an_event_or_damage_and_nothing_else(data: bytes) -> None:
    try:
        event = decode_event(data)
    except StoreDamaged:
        return
    assert encode_event(event) == data


def test_a_lock_given_up_in_an_unknown_way_is_damage() -> None:
    encoded = bytearray(encode_event(LockReleased(group="g", topic="t", queue=0, epoch=1)))
    encoded[-3] = 2

    with pytest.raises(StoreDamaged):
        decode_event(bytes(encoded))


def test_an_unknown_kind_is_damage() -> None:
    with pytest.raises(StoreDamaged):
        decode_event(b"\x0a" + bytes(40))
