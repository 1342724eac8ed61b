"""What a client is told when its broker has no room or no time, and when it comes back."""

import random

import pytest
from mqclient.errors import FlushTimeout, MqError, OutOfMeans, StoreFull, SyncStuck, error_of
from mqclient.protocol.backoff import Backoff


@pytest.mark.parametrize(
    ("status", "code", "kind", "outcome"),
    [
        (503, "flush_timeout", FlushTimeout, "unknown"),
        (503, "sync_stuck", SyncStuck, "failed"),
        (503, "out_of_means", OutOfMeans, "failed"),
        (507, "store_full", StoreFull, "failed"),
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
    assert max(pauses) <= 2.0
    assert max(pauses) - min(pauses) > 0.3
