"""Requests that arrive again, long after, at a broker that has gone on: refused, or harmless.

Row N5 of the fault table, one test a row: what the right holder has does not change. Decisions are
judged by INV-8, locks by INV-6. Rows that outlive the broker run on a killed and a cut off one.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.histories import exclusive, transactions
from tests.histories.events import Verb
from tests.histories.history import History
from tests.histories.verdicts import Validity, Verdict
from tests.outcomes.brokers import VOLATILE
from tests.outcomes.field import PRODUCERS
from tests.outcomes.replays import TOPICS, Scene, outcome_of, refused_count
from tests.process.product import Broker

pytestmark = pytest.mark.process

SHORT_MS = 300
LONG_MS = 60_000
WAIT_MS = 30_000
_CUT = pytest.param(VOLATILE, marks=pytest.mark.crash, id="cut off")
# A start of the broker takes its time: two rows have one in the short slice.
_KILL = pytest.param(True, marks=pytest.mark.crash, id="after a kill")
OR_KILLED = pytest.mark.parametrize("is_killed", [pytest.param(False, id=""), _KILL])
MakeScene = Callable[[], Scene]


@pytest.fixture(scope="module", params=[pytest.param((), id="killed"), _CUT])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """Run a broker with topics nobody uses yet; to kill it may be a power cut."""
    broker = Broker(tmp_path_factory.mktemp("old") / "broker", *request.param)
    broker.prepare(**dict.fromkeys(TOPICS, 1))
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def names() -> Iterator[str]:
    """Return topics, each once."""
    return iter(TOPICS)


@pytest.fixture
def scene(broker: Broker, names: Iterator[str], tmp_path: Path) -> Iterator[Scene]:
    """Return a scene with a topic and a group of its own."""
    with Scene(tmp_path / "history", broker, next(names)) as scene:
        yield scene


def valid(verdict: Verdict) -> Verdict:
    """Assert that a promise was kept."""
    print(verdict)
    assert verdict.validity is not Validity.INVALID, verdict
    return verdict


# Ends of transactions.


@OR_KILLED
@pytest.mark.parametrize(
    ("first", "second"),
    [("committed", "rolled_back"), ("rolled_back", "committed")],
    ids=["rollback after commit", "commit after rollback"],
)
def test_an_old_end_of_a_transaction_changes_no_decision(
    scene: Scene, first: str, second: str, is_killed: bool
) -> None:
    client = scene.client("decider")
    id_ = "half"
    transaction = client.begin(scene.topic, id_, PRODUCERS)
    assert transaction is not None
    frames = {}
    for outcome in (second, first):
        # The other frame was held up on its way, and has never arrived.
        verb = "commit" if outcome == "committed" else "rollback"
        frames[outcome] = (
            f"POST /api/v1/transactions/{transaction}:{verb} HTTP/1.1\r\nHost: localhost\r\n"
            "Content-Length: 0\r\nConnection: close\r\n\r\n"
        ).encode()
    decided = scene.again("decider", frames[first]).end(id_, transaction, first)
    assert decided is not None
    assert decided.status == 200
    if is_killed:
        scene.kill()

    for _ in range(2):
        late = scene.again("late", frames[second]).end(id_, transaction, second)
        repeat = scene.again("late", frames[first]).end(id_, transaction, first)

        assert late is not None
        assert (late.status, late.document["code"]) == (409, "transaction_decided")
        assert repeat is not None
        assert (repeat.status, repeat.document["repeat"]) == (200, True)

    assert scene.bodies() == ([id_] if first == "committed" else [])
    verdict = valid(transactions.check(scene.history()))
    assert (verdict.counts["refused"], verdict.counts["repeats"]) == (2, 2)


# Handles.


def handed_on(scene: Scene, verb: str, **asked: object) -> tuple[bytes, str]:
    """Let a lease run out and another client have its message.

    Return a request of the first client, which never arrived, and the handle of the second.
    """
    scene.send("m0", "m1")
    (old,) = scene.receive("first", invisible_ms=SHORT_MS)
    (new,) = scene.receive("other")
    assert (old["body"][:2], new["body"][:2]) == ("m0", "m1")
    scene.settle("ack", new["receipt_handle"])
    (held,) = scene.receive("second", invisible_ms=LONG_MS, wait_ms=WAIT_MS)
    assert held["offset"] == old["offset"]
    # Made by the wire and refused at once: only its bytes are of interest.
    assert scene.settle(verb, old["receipt_handle"], **asked) == "expired"
    return scene.wire.last, held["receipt_handle"]


SETTLING = pytest.mark.parametrize(
    ("verb", "asked"),
    [
        ("ack", {}),
        ("nack", {"delay_ms": 0, "reason": "late"}),
        ("nack", {"delay_level": -1, "reason": "late"}),
        ("extend", {"invisible_ms": 100}),
    ],
    ids=["ack", "nack", "nack to the dead letters", "extend"],
)


@SETTLING
@OR_KILLED
def test_an_old_handle_says_nothing_of_a_message_that_another_has(
    scene: Scene, verb: str, asked: dict[str, object], is_killed: bool
) -> None:
    frame, held = handed_on(scene, verb, **asked)
    if is_killed:
        scene.kill()

    for _ in range(2):
        assert outcome_of(scene.wire.replay(frame)) == "expired"

    assert scene.committed() == 0
    assert scene.receive("third") == []
    letters = f"/api/v1/topics/%25DLQ%25{scene.group}/queues/0/messages?offset=0"
    assert scene.asked("GET", letters)["messages"] == []
    assert scene.settle("ack", held) == "ok"
    assert scene.committed() == 2


def test_an_old_ack_of_a_message_that_was_given_back_does_not_settle_it(scene: Scene) -> None:
    scene.send("m0")
    (old,) = scene.receive("first")
    assert scene.settle("nack", old["receipt_handle"], delay_ms=0, reason="failed") == "ok"
    (held,) = scene.receive("second", wait_ms=WAIT_MS)

    assert scene.settle("ack", old["receipt_handle"]) == "expired"

    assert scene.committed() == 0
    assert scene.settle("ack", held["receipt_handle"]) == "ok"
    assert scene.committed() == 1


@OR_KILLED
def test_an_ack_that_arrives_again_is_answered_as_before_and_settles_nothing_else(
    scene: Scene, is_killed: bool
) -> None:
    scene.send("m0", "m1")
    (first,) = scene.receive("first")
    assert scene.settle("ack", first["receipt_handle"]) == "ok"
    frame = scene.wire.last
    (second,) = scene.receive("second")
    if is_killed:
        scene.kill()

    assert outcome_of(scene.wire.replay(frame)) == "ok"

    assert scene.committed() == 1
    assert scene.settle("ack", second["receipt_handle"]) == "ok"
    assert scene.committed() == 2


@SETTLING
def test_a_handle_that_was_extended_is_over(
    scene: Scene, verb: str, asked: dict[str, object]
) -> None:
    scene.send("m0")
    (old,) = scene.receive("first")
    path = f"/api/v1/groups/{scene.group}/messages:extend"
    document = {"receipt_handles": [old["receipt_handle"]], "invisible_ms": LONG_MS}
    (result,) = scene.asked("POST", path, document)["results"]

    assert scene.settle(verb, old["receipt_handle"], **asked) == "expired"

    assert scene.committed() == 0
    assert scene.receive("second") == []
    assert scene.settle("ack", result["receipt_handle"]) == "ok"


@pytest.mark.parametrize("verb", ["nack", "extend"])
def test_what_arrives_after_its_ack_brings_nothing_back(scene: Scene, verb: str) -> None:
    scene.send("m0")
    (old,) = scene.receive("first")
    assert scene.settle("ack", old["receipt_handle"]) == "ok"

    assert scene.settle(verb, old["receipt_handle"]) == "expired"

    assert scene.committed() == 1
    assert scene.receive("second") == []


# Locks.


def exclusively(scene: Scene) -> History:
    """Return the history, once INV-6 holds in it."""
    history = scene.history()
    valid(exclusive.check(history))
    return history


@pytest.mark.parametrize("is_killed", [False, True], ids=["", "after a kill"])
def test_old_locks_unlocks_and_commits_change_nothing_for_the_holder(
    scene: Scene, is_killed: bool
) -> None:
    scene.recorder.notice(
        Verb.SUBSCRIBE, group=scene.group, topic=scene.topic, ordered=True, tags=None
    )
    scene.send("m0", "m1", "m2")
    first, second = scene.holder("first"), scene.holder("second")
    old_epoch = first.lock()
    assert old_epoch is not None
    lock = scene.wire.last
    assert first.read(0, old_epoch).status == 200
    pull = scene.wire.last
    assert first.commit(1, epoch=old_epoch) == "ok"
    commit = scene.wire.last
    first.unlock(old_epoch)
    unlock = scene.wire.last
    epoch = second.lock()
    assert epoch is not None
    assert epoch > old_epoch
    if is_killed:
        scene.kill()

    for _ in range(2):
        assert scene.holder_again("first", lock).lock() is None
        scene.holder_again("first", unlock).unlock()
        assert scene.holder_again("first", pull).read(0, old_epoch).status == 409
        refused = scene.holder_again("first", commit).commit(1, epoch=old_epoch)
        assert refused == "lock_lost"

    assert scene.committed() == 1
    assert second.read(1, epoch).status == 200
    assert second.commit(2, epoch=epoch) == "ok"
    assert second.lock() == epoch
    history = exclusively(scene)
    assert refused_count(history, Verb.COMMIT) == 2


def test_an_old_unlock_does_not_take_the_lock_that_the_same_client_has_by_now(
    scene: Scene,
) -> None:
    scene.recorder.notice(
        Verb.SUBSCRIBE, group=scene.group, topic=scene.topic, ordered=True, tags=None
    )
    scene.send("m0")
    client, other = scene.holder("first"), scene.holder("second")
    old_epoch = client.lock()
    assert old_epoch is not None
    client.unlock(old_epoch)
    unlock = scene.wire.last
    epoch = client.lock()
    assert epoch is not None
    assert epoch > old_epoch

    scene.holder_again("first", unlock).unlock()

    assert other.lock() is None
    assert client.read(0, epoch).status == 200
    assert client.commit(1, epoch=epoch) == "ok"
    assert client.lock() == epoch
    exclusively(scene)


# Members.


def test_an_old_commit_of_a_member_that_has_lost_the_queue_is_refused(scene: Scene) -> None:
    scene.send("m0", "m1", "m2")
    old = scene.heartbeat("first")
    assert old["assignment"] == {scene.topic: [0]}
    first, second = scene.holder("first"), scene.holder("second")
    assert first.commit(1, generation=old["generation"]) == "ok"
    assert first.commit(2, generation=old["generation"]) == "ok"
    frame = scene.wire.last
    scene.leave("first")
    new = scene.heartbeat("second")
    assert new["assignment"] == {scene.topic: [0]}
    assert new["generation"] > old["generation"]

    refused = scene.holder_again("first", frame).commit(2, generation=old["generation"])

    assert refused == "stale_generation"
    assert scene.committed() == 2
    assert second.commit(3, generation=new["generation"]) == "ok"


def test_an_old_commit_of_a_member_moves_nothing_back(scene: Scene) -> None:
    scene.send("m0", "m1", "m2")
    generation = scene.heartbeat("first")["generation"]
    client = scene.holder("first")
    assert client.commit(1, generation=generation) == "ok"
    frame = scene.wire.last
    assert client.commit(3, generation=generation) == "ok"

    scene.holder_again("first", frame).commit(1, generation=generation)

    assert scene.committed() == 3


# Numbered sends.


@pytest.mark.parametrize("is_killed", [False, True], ids=["", "after a kill"])
def test_an_old_numbered_send_is_stored_once(scene: Scene, is_killed: bool) -> None:
    client = scene.client("counter")
    places = []
    frames = []
    for number in range(3):
        reply = client.send(scene.topic, [f"m{number}"], first_number=number)
        assert reply is not None
        places.append(reply.document["results"][0]["offset"])
        frames.append(scene.wire.last)
    if is_killed:
        scene.kill()

    for place, frame in zip(places, frames, strict=True):
        again = scene.wire.replay(frame)

        assert again.status == 201
        (result,) = again.document["results"]
        assert (result["repeat"], result["offset"]) == (True, place)

    assert scene.bodies() == ["m0", "m1", "m2"]
