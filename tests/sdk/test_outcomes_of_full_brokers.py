"""What a client is told when its broker has no room or no time, and when it comes back."""

import random

import pytest
from mqclient.consuming.errands import again_s
from mqclient.errors import (
    FlushTimeout,
    MqError,
    OutOfMeans,
    StoreFull,
    SyncStuck,
    TooManyRequests,
    error_of,
)
from mqclient.protocol.backoff import RETRY_AFTER_S_MAX, Backoff, told_s, told_to_wait


@pytest.mark.parametrize(
    ("status", "code", "kind", "outcome"),
    [
        (503, "flush_timeout", FlushTimeout, "unknown"),
        (503, "sync_stuck", SyncStuck, "failed"),
        (503, "out_of_means", OutOfMeans, "failed"),
        (507, "store_full", StoreFull, "failed"),
        (429, "too_many_requests", TooManyRequests, "failed"),
    ],
)
def test_each_says_whether_the_message_may_be_stored(
    status: int, code: str, kind: type[MqError], outcome: str
) -> None:
    error = error_of(status, code=code, retry_after_s=1.0)

    assert type(error) is kind
    assert (error.outcome, error.retriable, error.retry_after_s) == (outcome, True, 1.0)


def test_clients_that_were_told_the_same_moment_come_back_at_different_ones() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    error = error_of(503, code="overloaded", retry_after_s=1.0)
    pauses = [
        Backoff(rng=random.Random(seed + client), first_s=1.0).pause_s(1, error)
        for client in range(50)
    ]

    assert min(pauses) >= 1.0
    assert max(pauses) <= 2.2
    assert max(pauses) - min(pauses) > 0.3


def test_a_wait_is_obeyed_whole_and_counted_by_what_it_was_for() -> None:
    before = told_to_wait().get("too_many_requests", 0)
    error = error_of(429, code="too_many_requests", retry_after_s=16.0)
    rng = random.Random(1)

    waits = [told_s(error, rng) for _ in range(50)]
    assert 16.0 <= min(waits) < max(waits) <= 19.2
    assert told_to_wait()["too_many_requests"] == before + 50

    error.retry_after_s = 3_600.0
    assert told_s(error, rng) <= 1.2 * RETRY_AFTER_S_MAX
    assert told_s(None) == 0.0


def test_an_errand_waits_its_own_pause_or_what_the_broker_said_and_a_bit() -> None:
    error = error_of(429, code="too_many_requests", retry_after_s=5.0)

    assert again_s(10.0, None) == 11.0
    moments = {again_s(10.0, error) for _ in range(20)}
    assert 15.0 <= min(moments) < max(moments) <= 16.0
