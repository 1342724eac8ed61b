"""Which queue a key goes to, and what becomes of it when a topic gets one more."""

import random
import string
from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from mqclient import (
    ConsistentHashSelector,
    InvalidArgument,
    LitePullConsumer,
    Producer,
    TopicQueue,
)
from mqclient.producing.drafting import outgoing
from mqclient.wire.hashing import queue_by_hash
from mqclient.wire.ring import HashRing, ring_hash

from tests.sdk.fake_broker import FakeBroker


def keys(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices(string.ascii_letters, k=12)) for _ in range(count)]


def chosen(selector: ConsistentHashSelector, key: str, queue_count: int) -> int:
    queue = selector(outgoing("orders", b"", sharding_key=key), queue_count)
    assert queue is not None
    return queue


# --- the ring ----------------------------------------------------------------------------------


def test_points_are_rocketmqs() -> None:
    assert ring_hash("c1-0") == 3886541579


@given(st.text(), st.integers(1, 20))
def test_a_key_has_one_queue_and_it_exists(key: str, queue_count: int) -> None:
    queue = chosen(ConsistentHashSelector(), key, queue_count)

    assert 0 <= queue < queue_count
    assert chosen(ConsistentHashSelector(), key, queue_count) == queue


def test_a_hash_at_a_point_and_one_behind_the_last_find_their_owner() -> None:
    ring = HashRing(["a"], virtual_nodes=1)
    two = HashRing(["a", "b"], virtual_nodes=1)
    last = max(["a", "b"], key=lambda owner: ring_hash(f"{owner}-0"))
    first = min(["a", "b"], key=lambda owner: ring_hash(f"{owner}-0"))
    behind = next(key for key in map(str, range(10**6)) if ring_hash(key) > ring_hash(f"{last}-0"))

    assert ring.owner_of("anything") == "a"
    assert two.owner_of(f"{last}-0") == last
    assert two.owner_of(behind) == first


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), st.integers(0, 1 << 32))
def test_one_more_queue_takes_about_its_share_of_the_keys_and_no_other_moves(
    queue_count: int, seed: int
) -> None:
    selector = ConsistentHashSelector()
    before = {key: chosen(selector, key, queue_count) for key in keys(2000, seed)}

    after = {key: chosen(selector, key, queue_count + 1) for key in before}

    moved = [key for key in before if after[key] != before[key]]
    assert {after[key] for key in moved} <= {queue_count}
    share = len(moved) / len(before) * (queue_count + 1)
    assert 0.4 < share < 1.8, f"{len(moved)} of {len(before)} keys moved"


def test_hash_and_modulo_moves_most_keys() -> None:
    """The difference the ring makes; were it none, the test above would show nothing."""
    sample = keys(2000, 1)

    moved = sum(queue_by_hash(key, 9) != queue_by_hash(key, 8) for key in sample)

    assert moved > 1500


def test_the_keys_are_spread_evenly_enough() -> None:
    selector = ConsistentHashSelector()

    counts = Counter(chosen(selector, key, 8) for key in keys(16_000, 2))

    assert len(counts) == 8
    assert all(0.7 * 2000 < count < 1.3 * 2000 for count in counts.values()), counts


@pytest.mark.parametrize("count", [0, -1, 201])
def test_a_queue_has_a_virtual_node_and_not_too_many(count: int) -> None:
    with pytest.raises(InvalidArgument, match="virtual_nodes is 1 to 200"):
        ConsistentHashSelector(virtual_nodes=count)


# --- in a producer -----------------------------------------------------------------------------


def test_a_producer_sends_a_keys_messages_to_its_queue(broker: FakeBroker) -> None:
    selector = ConsistentHashSelector(virtual_nodes=10)
    with Producer(broker.url, selector=selector) as producer:
        results = {key: producer.send("orders", key, sharding_key=key) for key in keys(50, 3)}

    assert {key: result.queue for key, result in results.items()} == {
        key: chosen(selector, key, 4) for key in results
    }
    assert len({result.queue for result in results.values()}) == 4


def test_messages_without_a_key_go_to_any_queue_and_a_fixed_queue_stays(broker: FakeBroker) -> None:
    with Producer(broker.url, selector=ConsistentHashSelector()) as producer:
        free = [producer.send("orders", b"x") for _ in range(8)]
        fixed = producer.send("orders", b"x", queue=2)

    assert sorted(result.queue for result in free) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert fixed.queue == 2


def test_queues_that_take_no_messages_yet_are_left_alone(broker: FakeBroker) -> None:
    broker.topics["orders"] = 4
    broker.write_queue_counts["orders"] = 2

    with Producer(broker.url) as producer:
        keyed = [producer.send("orders", key, sharding_key=key) for key in keys(50, 4)]
        free = [producer.send("orders", b"x") for _ in range(4)]

    assert {result.queue for result in keyed} == {0, 1}
    assert {result.queue for result in free} == {0, 1}


@pytest.mark.parametrize("selector", [None, ConsistentHashSelector()])
def test_a_topic_of_one_queue_is_ordered_as_a_whole(
    broker: FakeBroker, selector: ConsistentHashSelector | None
) -> None:
    broker.topics["orders"] = 1
    rng = random.Random(5)
    bodies = [str(number).encode() for number in range(300)]

    with Producer(broker.url, selector=selector, batch_messages_max=7) as producer:
        futures = [
            producer.send_async("orders", body, sharding_key=rng.choice([None, "a", "b", "c"]))
            for body in bodies
        ]
        offsets = [future.result().queue_offset for future in futures]
    with LitePullConsumer(broker.url) as reader:
        reader.assign([TopicQueue("orders", 0)])
        reader.seek(TopicQueue("orders", 0), 0)
        read: list[bytes] = []
        while len(read) < len(bodies):
            messages = reader.poll(5.0)
            assert messages
            read += [message.body for message in messages]

    assert offsets == list(range(300))
    assert read == bodies


def test_a_topic_whose_last_queues_close_takes_messages_in_the_others(broker: FakeBroker) -> None:
    broker.topics["orders"] = 4
    with Producer(broker.url, selector=ConsistentHashSelector()) as producer:
        before = [producer.send("orders", key, sharding_key=key) for key in keys(50, 6)]
        broker.write_queue_counts["orders"] = 3
        after = [producer.send("orders", key, sharding_key=key) for key in keys(50, 6)]

    assert {result.queue for result in before} == {0, 1, 2, 3}
    assert {result.queue for result in after} == {0, 1, 2}
    kept = [old.queue == new.queue for old, new in zip(before, after, strict=True) if old.queue < 3]
    assert all(kept)
