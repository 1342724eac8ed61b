"""`mq mirror` between two brokers, killed as it works: nothing lost, order kept, copies known."""

import random
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from mqclient import OutgoingMessage, Producer
from mqclient.rocketmq.translation import users_own

from tests.process.mirrors import Side, end, start
from tests.rounds import report, rounds

pytestmark = pytest.mark.process
MESSAGES, KEYS = 1_500, 20
BATCH = 256
RECEIVE = 32
LEASE_S = 10
# Slow enough to be killed before its end, also where everything else is slow.
RATE = 200
SOMETIMES = [1, pytest.param(rounds(3), marks=pytest.mark.crash)]


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    """Return where the messages are, and where they are to be."""
    opened = [Side(tmp_path / name) for name in ("here", "there")]
    yield opened[0], opened[1]
    assert [side.broker.stop() for side in opened] == [0, 0]


def _fill(side: Side, rng: random.Random) -> dict[str, list[str]]:
    """Send messages of many keys; return the ids of each key, in order."""
    sent: dict[str, list[str]] = defaultdict(list)
    # What is not synced nobody sees, and a mirror that runs once ends where the topic ended.
    with Producer(side.url, ack="sync", timeout_s=30) as producer:
        futures = []
        for number in range(MESSAGES):
            key = f"key {rng.randrange(KEYS)}"
            message = OutgoingMessage(
                topic="orders",
                body=rng.randbytes(rng.randrange(300)) or b"-",
                tag=rng.choice([None, "TagA", "Größe"]),
                keys=(f"order-{number}",),
                properties={"number": str(number), "text": "a 'b' \"c\" \u4e16\u754c"},
                sharding_key=key,
            )
            futures.append((key, producer.send_message(message)))
        producer.flush()
        for key, future in futures:
            sent[key].append(future.result().message_id)
    return sent


def _killed(
    words: tuple[str, ...], server: Side, target: Side, rng: random.Random, kills: int
) -> None:
    """Run the mirror so often, and kill each run after some more copies are there."""
    for _ in range(kills):
        wanted = target.count() + rng.randrange(20, 150)
        process = start(*words, "--rate", str(RATE), server=server)
        while target.count() < wanted:
            assert process.poll() is None, "it ended before it could be killed"
        process.kill()
        assert end(process)[0] == -signal.SIGKILL
    assert target.count() < MESSAGES


def _judge(here: Side, there: Side, sent: dict[str, list[str]]) -> int:
    """Compare both sides; return how many copies are there twice."""
    copies = there.everything()
    originals = {message.message_id: message for message in here.everything()}
    first: dict[str, list[str]] = defaultdict(list)
    seen = set()
    for copy in copies:
        original = originals[copy.message_id]
        assert copy.body == original.body
        assert (copy.tag, copy.keys) == (original.tag, original.keys)
        assert users_own(copy.properties) == users_own(original.properties)
        assert len(users_own(copy.properties)) == 2
        assert copy.sharding_key == original.sharding_key
        assert copy.born_time_ms == original.born_time_ms
        if copy.message_id not in seen and copy.sharding_key is not None:
            seen.add(copy.message_id)
            first[copy.sharding_key].append(copy.message_id)
    assert first == sent
    return len(copies) - len(seen)


def _rng() -> random.Random:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.mark.parametrize("kills", SOMETIMES)
def test_a_mirror_out_that_is_killed_again_and_again_loses_nothing(
    sides: tuple[Side, Side], kills: int
) -> None:
    here, there = sides
    rng = _rng()
    sent = _fill(here, rng)
    words = ("out", "orders", "--to", there.endpoint, "--once")

    _killed(words, here, there, rng, kills)
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
    rng = _rng()
    sent = _fill(there, rng)
    words = (
        "in", "orders", "--from", there.endpoint, "--group", "movers", "--once",
        "--lease", str(LEASE_S),
    )  # fmt: skip

    _killed(words, here, here, rng, kills)
    code, said = end(start(*words, server=here))
    twice = _judge(there, here, sent)

    report("mirror in", kills=kills, messages=MESSAGES, copied_twice=twice)
    assert code == 0, said
    assert twice <= kills * RECEIVE


def test_a_mirror_waits_for_a_side_that_is_away_and_gives_up_in_the_end(
    sides: tuple[Side, Side],
) -> None:
    here, there = sides
    sent = _fill(here, _rng())
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
