"""`mq mirror` of lite topics: all there are on the way out, those that are named on the way in."""

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mqclient import Message, Producer
from mqclient.names import lite_topic

from tests.process.killedmirrors import (
    BATCH,
    LEASE_S,
    RECEIVE,
    SOMETIMES,
    assert_same,
    filled,
    kill_runs,
    rng_of_run,
)
from tests.process.mirrors import ALONE, END_S, Side, end, start
from tests.rounds import report

pytestmark = pytest.mark.process
MESSAGES, LITES = 1_200, 50
Sent = dict[str, list[str]]


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    """Return where the messages are, and where they are to be."""
    opened = [Side(tmp_path / name) for name in ("source", "target")]
    yield opened[0], opened[1]
    assert [side.broker.stop() for side in opened] == [0, 0]


def _fill(side: Side, rng: random.Random) -> Sent:
    """Send messages to lite topics of `inbox`; return the ids of each, in order."""

    def lane() -> tuple[str, dict[str, Any]]:
        name = f"user-{rng.randrange(LITES)}"
        return name, {"topic": lite_topic("inbox", name)}

    return filled(side, rng, MESSAGES, lane)


def _send(side: Side, parent: str, name: str, *bodies: str) -> None:
    with Producer(side.url) as producer:
        for body in bodies:
            producer.send(lite_topic(parent, name), body)


def _bodies(side: Side, parent: str) -> dict[str, list[str]]:
    return {
        name: [one.body.decode() for one in side.everything(lite_topic(parent, name))]
        for name in side.lites(parent)
    }


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + END_S
    while not condition():
        assert time.monotonic() < deadline_s


def _copies(target: Side) -> int:
    return sum(target.lites("inbox").values())


def _judge(source: Side, target: Side, sent: Sent) -> int:
    """Compare both sides, lite topic by lite topic; return how many copies are there twice."""
    twice = 0
    assert set(target.lites("inbox")) == set(sent)
    for name, ids in sent.items():
        originals = _by_id(source.everything(lite_topic("inbox", name)))
        copies = target.everything(lite_topic("inbox", name))
        for copy in copies:
            original = originals[copy.message_id]
            assert_same(copy, original)
        # The first of each is where it was; what is there twice comes again behind it.
        assert list(_by_id(copies)) == ids
        twice += len(copies) - len(ids)
    return twice


def _by_id(messages: list[Message]) -> dict[str, Message]:
    found: dict[str, Message] = {}
    for message in messages:
        found.setdefault(message.message_id, message)
    return found


@pytest.mark.parametrize("kills", SOMETIMES)
def test_a_mirror_out_of_lite_topics_that_is_killed_loses_nothing(
    sides: tuple[Side, Side], kills: int
) -> None:
    source, target = sides
    rng = rng_of_run()
    sent = _fill(source, rng)
    words = ("out", "inbox", "--to", target.endpoint, "--once")

    kill_runs(words, source, lambda: _copies(target), rng, kills=kills, messages=MESSAGES)
    code, said = end(start(*words, server=source))
    twice = _judge(source, target, sent)

    report("mirror of lite topics out", kills=kills, messages=MESSAGES, copied_twice=twice)
    assert code == 0, said
    assert twice <= kills * BATCH
    assert end(start(*words, server=source))[1].startswith("mirrored 0 messages")


@pytest.mark.parametrize("kills", SOMETIMES)
def test_a_mirror_in_of_lite_topics_that_is_killed_loses_nothing(
    sides: tuple[Side, Side], tmp_path: Path, kills: int
) -> None:
    source, target = sides
    rng = rng_of_run()
    sent = _fill(source, rng)
    names = tmp_path / "names"
    names.write_text("".join(f"{name}\n" for name in sent))
    words = (
        "in", "inbox", "--from", source.endpoint, "--group", "movers", "--once",
        "--lite-file", str(names), "--lease", str(LEASE_S),
    )  # fmt: skip

    kill_runs(words, target, lambda: _copies(target), rng, kills=kills, messages=MESSAGES)
    code, said = end(start(*words, server=target))
    twice = _judge(source, target, sent)

    report("mirror of lite topics in", kills=kills, messages=MESSAGES, copied_twice=twice)
    assert code == 0, said
    assert twice <= kills * RECEIVE


def test_what_comes_while_a_mirror_out_runs_is_copied_and_each_in_its_order(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    _send(source, "inbox", "ann", "a1", "a2")
    process = start("out", "inbox", "--to", target.endpoint, "--as", "chats", server=source)
    _wait_for(lambda: target.lites("chats") == {"ann": 2})

    _send(source, "inbox", "bob", "b1")
    _send(source, "inbox", "ann", "a3")
    _wait_for(lambda: target.lites("chats") == {"ann": 3, "bob": 1})
    process.send_signal(signal.SIGTERM)

    assert end(process)[0] == 130
    assert _bodies(target, "chats") == {"ann": ["a1", "a2", "a3"], "bob": ["b1"]}


@pytest.mark.parametrize(
    "words", [("inbox", "--lite", "ann"), (lite_topic("inbox", "ann"), "--as", "inbox")]
)
def test_one_lite_topic_is_copied_by_its_name(
    sides: tuple[Side, Side], words: tuple[str, ...]
) -> None:
    source, target = sides
    _send(source, "inbox", "ann", *(f"{number}" for number in range(50)))
    _send(source, "inbox", "bob", "b")

    code, said = end(start("out", *words, "--to", target.endpoint, "--once", server=source))

    assert code == 0, said
    assert _bodies(target, "inbox") == {"ann": [f"{number}" for number in range(50)]}


def test_a_mirror_in_begins_where_it_is_told_and_leaves_alone_what_is_not_named(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    # Letters: of a client that writes as Python's several are taken for one name.
    for name in ("a", "b", "c"):
        _send(source, "inbox", name, "early")
    words = (
        "in", "inbox", "--from", source.endpoint, "--group", "movers", "--once",
        "--lite", "a", "--lite", "b", "--lease", "10", "--start",
    )  # fmt: skip

    first = end(start(*words, "latest", server=target))
    copied_before = target.lites("inbox")
    for name in ("a", "c"):
        _send(source, "inbox", name, "late")
    second = end(start(*words, "earliest", server=target))

    assert (first[0], second[0]) == (0, 0), first[1] + second[1]
    assert copied_before == {}
    assert _bodies(target, "inbox") == {"a": ["late"]}


def test_a_mirror_in_that_loses_a_lite_topic_to_another_client_ends_and_names_it(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    _send(source, "inbox", "ann", "a1")
    _send(source, "inbox", "bob", "b1")
    words = ("in", "inbox", "--from", source.endpoint, "--group", ALONE, "--lite")
    older = start(*words, "ann", "--lite", "bob", server=target)
    _wait_for(lambda: target.lites("inbox") == {"ann": 1, "bob": 1})

    newer = start(*words, "bob", server=target)
    code, said = end(older)
    newer.send_signal(signal.SIGTERM)

    assert code == 1, said
    assert "lite topic bob of inbox there is another client's" in said
    assert end(newer)[0] == 130


def test_what_is_no_mirror_of_lite_topics_ends_with_a_sentence(sides: tuple[Side, Side]) -> None:
    here, there = sides
    _send(here, "inbox", "ann", "a")
    said = {
        words: end(start(*words, there.endpoint, "--once", "--group", "g", server=here))
        for words in (
            ("in", "inbox", "--from"),
            ("in", "orders", "--lite", "a", "--from"),
            ("in", "inbox", "--lite", "a b", "--from"),
            ("in", "inbox", "--start", "latest", "--from"),
            ("out", "orders", "--lite", "a", "--to"),
            ("out", "inbox", "--as", "orders", "--to"),
        )
    }

    sentences = [
        "are named", "has no lite topics", "must match", "goes with --lite", "has no lite topics",
        "takes FIFO",
    ]  # fmt: skip
    assert [code for code, _ in said.values()] == [1] * len(sentences)
    for sentence, (_, text) in zip(sentences, said.values(), strict=True):
        assert sentence in text
        assert "Traceback" not in text
