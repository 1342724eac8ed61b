"""What `mq mirror` is told: names, places, TLS, what to pass over; and what a copy keeps."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mqclient import Message, Producer, SimpleConsumer
from mqclient.rocketmq.translation import users_own

from tests.certificates import self_signed
from tests.process.mirrors import END_S, Side, end, start

pytestmark = pytest.mark.process
# A lease and a poll have to pass before a mirror in with `--once` ends.
LEASE = ("--lease", "10")
# Nothing is due before a test says so, however slow the machine is.
DELAY_MS = 3_600_000
# The way in waits for a lease and a poll, each time; what both ways do alike goes it by night.
IN = pytest.param("in", marks=pytest.mark.crash)


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    """Return where the messages are, and where they are to be."""
    opened = [Side(tmp_path / name) for name in ("source", "target")]
    yield opened[0], opened[1]
    assert [side.broker.stop() for side in opened] == [0, 0]


def _copied(
    direction: str, source: Side, target: Side, *words: str, topic: str = "mixed", **peer: str
) -> tuple[int, str]:
    """Mirror a topic to its end, in a process beside the source or beside the target."""
    if direction == "out":
        place = peer.get("endpoint", target.endpoint)
        return end(start("out", topic, "--to", place, "--once", *words, server=source))
    place = peer.get("endpoint", source.endpoint)
    group = ("--group", "movers", *LEASE)
    return end(start("in", topic, "--from", place, "--once", *group, *words, server=target))


def _send(side: Side, topic: str, *bodies: str, **fields: Any) -> list[str]:
    """Send messages one after the other; return their ids."""
    with Producer(side.url) as producer:
        return [producer.send(topic, body, **fields).message_id for body in bodies]


def _delayed(side: Side, body: str, **fields: Any) -> str:
    """Send a message that waits; return its handle."""
    with Producer(side.url) as producer:
        handle = producer.send("mixed", body, delay_ms=DELAY_MS, **fields).recall_handle
    assert handle is not None
    return handle


def _come_due(side: Side, handle: str) -> None:
    """Have a delayed message be due, and wait until it is there."""
    count = side.count("mixed")
    with Producer(side.url) as producer:
        producer.deliver_now(handle)
    _wait_for(lambda: side.count("mixed") == count + 1)


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + END_S
    while not condition():
        assert time.monotonic() < deadline_s


def _bodies(messages: list[Message]) -> set[str]:
    return {message.body.decode() for message in messages}


@pytest.mark.parametrize("direction", ["out", "in"])
def test_a_copy_is_what_it_is_a_copy_of(sides: tuple[Side, Side], direction: str) -> None:
    source, target = sides
    given: dict[str, Any] = {
        "tag": "TagA", "keys": ["order-7", "order-8"], "properties": {"city": "Köln", "empty": ""},
    }  # fmt: skip
    _send(source, "mixed", "all of it", sharding_key="key", **given)
    _send(source, "mixed", "nothing of it")
    _come_due(source, _delayed(source, "delayed", **given))
    originals = {message.message_id: message for message in source.everything("mixed")}

    code, said = _copied(direction, source, target)

    assert code == 0, said
    copies = target.everything("mixed")
    assert {copy.message_id for copy in copies} == set(originals)
    assert len(copies) == 3
    for copy in copies:
        original = originals[copy.message_id]
        assert copy.body == original.body
        assert (copy.tag, copy.keys) == (original.tag, original.keys)
        assert users_own(copy.properties) == users_own(original.properties)
        assert copy.sharding_key == original.sharding_key
        assert copy.born_time_ms == original.born_time_ms
    (full,) = (copy for copy in copies if copy.body == b"all of it")
    assert (full.tag, full.keys, full.sharding_key) == ("TagA", ("order-7", "order-8"), "key")
    assert users_own(full.properties) == {"city": "Köln", "empty": ""}


@pytest.mark.parametrize("direction", ["out", IN])
def test_a_copy_has_the_priority_of_its_original(sides: tuple[Side, Side], direction: str) -> None:
    source, target = sides
    for priority in (0, 9, 1, 3):
        _send(source, "alarms", f"{priority}", priority=priority)

    code, said = _copied(direction, source, target, topic="alarms")

    assert code == 0, said
    copies = target.everything("alarms")
    assert {(copy.body, copy.priority, copy.queue) for copy in copies} == {
        (b"0", 0, 0), (b"1", 1, 1), (b"3", 3, 3), (b"9", 9, 3),
    }  # fmt: skip
    # One at a time, so that the broker says which is next.
    with SimpleConsumer("alarms", group="g", server=target.url) as consumer:
        order = [consumer.receive(1)[0].queue for _ in range(4)]
    assert order == [3, 3, 1, 0]


def test_a_queue_of_a_topic_of_priorities_is_the_priority_of_a_copy(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    _send(source, "alarms", "by its queue", queue=2)
    _send(source, "alarms", "by none")

    code, said = _copied("out", source, target, topic="alarms")

    assert code == 0, said
    copies = target.everything("alarms")
    assert {(copy.body, copy.priority) for copy in copies} == {
        (b"by its queue", 2),
        (b"by none", 0),
    }


def test_a_delayed_message_is_copied_when_it_is_due_and_once(sides: tuple[Side, Side]) -> None:
    source, target = sides
    _send(source, "mixed", "now")
    handle = _delayed(source, "later")

    before = _copied("out", source, target)
    copied_before = target.count("mixed")
    _come_due(source, handle)
    after = _copied("out", source, target)

    assert (before[0], after[0]) == (0, 0), before[1] + after[1]
    assert copied_before == 1
    assert _bodies(target.everything("mixed")) == {"now", "later"}
    assert target.count("mixed") == 2


def test_a_namespace_is_where_the_copies_are(sides: tuple[Side, Side]) -> None:
    source, target = sides
    _send(source, "mixed", "a", "b")

    code, said = _copied("out", source, target, "--as", "orders", "--namespace", "shop")

    assert code == 0, said
    assert _bodies(target.everything("shop%orders")) == {"a", "b"}
    assert target.count("orders") == 0


def test_a_mirror_in_reads_a_namespace(sides: tuple[Side, Side]) -> None:
    source, target = sides
    _send(source, "shop%orders", "a", "b")
    _send(source, "orders", "of nobody's shop", sharding_key="key")

    code, said = _copied("in", source, target, "--as", "orders", "--namespace", "shop")

    assert code == 0, said
    assert _bodies(target.everything("mixed")) == {"a", "b"}


def test_a_mirror_begins_at_a_time_and_goes_on_where_it_was(sides: tuple[Side, Side]) -> None:
    source, target = sides
    _send(source, "mixed", "early 1", "early 2", "early 3")
    last_ms = max(message.store_time_ms for message in source.everything("mixed"))
    _wait_for(lambda: time.time_ns() // 1_000_000 > last_ms + 1)
    _send(source, "mixed", "late 1", "late 2", "late 3")
    words = ("--start", str(last_ms + 1))

    first = _copied("out", source, target, *words)
    _send(source, "mixed", "later 1", "later 2")
    second = _copied("out", source, target, *words)

    assert (first[0], second[0]) == (0, 0), first[1] + second[1]
    bodies = sorted(message.body.decode() for message in target.everything("mixed"))
    assert bodies == ["late 1", "late 2", "late 3", "later 1", "later 2"]


def test_what_came_while_a_mirror_from_the_latest_was_away_is_copied(
    sides: tuple[Side, Side],
) -> None:
    """A run that copied nothing left no position, and the next began at the latest once more."""
    source, target = sides
    _send(source, "mixed", "early 1", "early 2")

    first = _copied("out", source, target, "--start", "latest")
    _send(source, "mixed", "late 1", "late 2", "late 3")
    second = _copied("out", source, target, "--start", "latest")

    assert first[0] == 0
    assert first[1].startswith("mirrored 0 messages")
    assert second[0] == 0, second[1]
    assert _bodies(target.everything("mixed")) == {"late 1", "late 2", "late 3"}


@pytest.mark.parametrize(
    ("direction", "topic", "words"),
    [
        ("out", "mixed", ("--as", "orders")),
        pytest.param("in", "keyed", ("--as", "mixed"), marks=pytest.mark.crash),
    ],
)
def test_what_the_other_side_never_takes_is_passed_over_and_named(
    sides: tuple[Side, Side], direction: str, topic: str, words: tuple[str, ...]
) -> None:
    """Out, the other topic takes messages in order only; in, ours is compacted and needs keys."""
    source, target = sides
    goal = "orders" if direction == "out" else "keyed"
    # Of a key of its own each: a compacted topic drops what a newer one has replaced.
    good = [
        *_send(source, "mixed", "good 1", sharding_key="key", keys=["order-1"]),
        *_send(source, "mixed", "good 2", sharding_key="key", keys=["order-2"]),
    ]
    bad = _send(source, "mixed", "bad")
    more = _send(source, "mixed", "good 3", sharding_key="key", keys=["order-3"])

    stopped, why = _copied(direction, source, target, *words, topic=topic)
    passed, said = _copied(direction, source, target, *words, "--skip-refused", topic=topic)

    assert stopped == 1, why
    assert bad[0] in why
    assert passed == 0, said
    assert f"passed over {bad[0]}" in said
    copies = {message.message_id for message in target.everything(goal)}
    assert copies == {*good, *more}, (good, more, target.count(goal), said)


@pytest.mark.parametrize("direction", ["out", IN])
def test_a_mirror_by_tls(sides: tuple[Side, Side], direction: str) -> None:
    source, target = sides
    _send(source, "mixed", "secret")
    peer = target if direction == "out" else source

    code, said = _copied(
        direction, source, target, "--tls", "--ca", str(peer.certificate),
        endpoint=peer.tls_endpoint,
    )  # fmt: skip

    assert code == 0, said
    assert _bodies(target.everything("mixed")) == {"secret"}


@pytest.mark.parametrize("direction", ["out", IN])
@pytest.mark.parametrize(
    "trust", ["another", pytest.param("the system's", marks=pytest.mark.crash)]
)
def test_a_certificate_that_is_not_trusted_is_no_answer(
    sides: tuple[Side, Side], tmp_path: Path, direction: str, trust: str
) -> None:
    source, target = sides
    _send(source, "mixed", "secret")
    peer = target if direction == "out" else source
    other, _ = self_signed(tmp_path)
    words = ("--ca", str(other)) if trust == "another" else ("--tls",)

    code, said = _copied(
        direction, source, target, "--patience", "2", *words, endpoint=peer.tls_endpoint
    )

    assert code == 3, said
    assert "Traceback" not in said, said
    assert "certificate" in said.lower() or "handshake" in said.lower()
    assert target.count("mixed") == 0
