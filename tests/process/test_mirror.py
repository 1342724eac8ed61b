"""`mq mirror` between two brokers, killed as it works: nothing lost, order kept, copies known."""

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mqclient import Producer

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
from tests.process.mirrors import Side, end, start
from tests.rounds import report

pytestmark = pytest.mark.process
MESSAGES, KEYS = 1_500, 20


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    """Return where the messages are, and where they are to be."""
    opened = [Side(tmp_path / name) for name in ("here", "there")]
    yield opened[0], opened[1]
    assert [side.broker.stop() for side in opened] == [0, 0]


def _fill(side: Side, rng: random.Random) -> dict[str, list[str]]:
    """Send messages of many keys; return the ids of each key, in order."""

    def lane() -> tuple[str, dict[str, Any]]:
        key = f"key {rng.randrange(KEYS)}"
        return key, {"topic": "orders", "sharding_key": key}

    return filled(side, rng, MESSAGES, lane)


def _judge(here: Side, there: Side, sent: dict[str, list[str]]) -> int:
    """Compare both sides; return how many copies are there twice."""
    copies = there.everything()
    originals = {message.message_id: message for message in here.everything()}
    first: dict[str, list[str]] = defaultdict(list)
    seen = set()
    for copy in copies:
        original = originals[copy.message_id]
        assert_same(copy, original)
        assert copy.sharding_key == original.sharding_key
        if copy.message_id not in seen and copy.sharding_key is not None:
            seen.add(copy.message_id)
            first[copy.sharding_key].append(copy.message_id)
    assert first == sent
    return len(copies) - len(seen)


@pytest.mark.parametrize("kills", SOMETIMES)
def test_a_mirror_out_that_is_killed_again_and_again_loses_nothing(
    sides: tuple[Side, Side], kills: int
) -> None:
    here, there = sides
    rng = rng_of_run()
    sent = _fill(here, rng)
    words = ("out", "orders", "--to", there.endpoint, "--once")

    kill_runs(words, here, there.count, rng, kills=kills, messages=MESSAGES)
    code, said = end(start(*words, server=here))
    twice = _judge(here, there, sent)

    report("mirror out", kills=kills, messages=MESSAGES, copied_twice=twice)
    assert code == 0, said
    assert twice <= kills * BATCH
    assert end(start(*words, server=here))[1].startswith("mirrored 0 messages")


@pytest.mark.parametrize("kills", SOMETIMES)
def test_a_mirror_in_that_is_killed_again_and_again_loses_nothing(
    sides: tuple[Side, Side], kills: int
) -> None:
    there, here = sides
    rng = rng_of_run()
    sent = _fill(there, rng)
    words = (
        "in", "orders", "--from", there.endpoint, "--group", "movers", "--once",
        "--lease", str(LEASE_S),
    )  # fmt: skip

    kill_runs(words, here, here.count, rng, kills=kills, messages=MESSAGES)
    code, said = end(start(*words, server=here))
    twice = _judge(there, here, sent)

    report("mirror in", kills=kills, messages=MESSAGES, copied_twice=twice)
    assert code == 0, said
    assert twice <= kills * RECEIVE


def test_a_mirror_waits_for_a_side_that_is_away_and_gives_up_in_the_end(
    sides: tuple[Side, Side],
) -> None:
    here, there = sides
    sent = _fill(here, rng_of_run())
    there.broker.kill()
    words = ("out", "orders", "--to", there.endpoint, "--once", "--patience")

    code, said = end(start(*words, "2", server=here))
    waiting = start(*words, "60", server=here)
    there.start()

    assert code == 3, said
    assert end(waiting)[0] == 0
    _judge(here, there, sent)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("out", "orders", "--to", "{endpoint}", "--as", "nowhere"), 1),
        (("out", "orders", "--to", "no port"), 1),
        (("in", "orders", "--from", "{endpoint}"), 2),
    ],
    ids=["no topic there", "no endpoint", "no group"],
)
def test_what_cannot_be_copied_ends_with_a_sentence_and_its_code(
    sides: tuple[Side, Side], words: tuple[str, ...], code: int
) -> None:
    here, there = sides
    with Producer(here.url) as producer:
        producer.send("orders", b"body", sharding_key="key")
    named = [word.format(endpoint=there.endpoint) for word in words]

    ended, said = end(start(*named, server=here))

    assert ended == code
    assert "Traceback" not in said
    assert said.strip()
