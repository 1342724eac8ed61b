"""What operators ask through the client: care of queues and offsets, by calls and by `mq`."""

from typing import Any

import pytest
from mqclient import (
    Admin,
    AsyncAdmin,
    Conflict,
    HeadMoved,
    InvalidName,
    NotOrdered,
    OffsetsMoved,
    PlannedOffset,
    QueueMoved,
)

from tests.sdk.fake_broker import FakeBroker
from tests.sdk.test_cli import mq

PREVIEW = {
    "group": "g",
    "target": "earliest",
    "items": [
        {"topic": "t", "queue": 0, "current": "5", "target": "0", "replay": "5", "skip": "0",
         "was_clamped": False},
        {"topic": "t", "queue": 1, "current": "1", "target": "4", "replay": "0", "skip": "3",
         "was_clamped": True},
    ],
    "is_online": True,
    "moved_max": 10_000,
    "token": "promise",
}  # fmt: skip
RESET = {
    "undo_id": "7",
    "target": "earliest",
    "state": "applied",
    "queues": [{"topic": "t", "queue": 0, "before": "5", "after": "0"}],
}


def done(act: str, **what: Any) -> dict[str, Any]:
    return {
        "act": act, "group": "g", "topic": "t", "queue": 0, "head": "4", "is_repeat": False,
        "suspension": None, "dead_letter_offset": None,
    } | what  # fmt: skip


def refused(code: str) -> dict[str, Any]:
    return {"code": code, "detail": "no", "retriable": False}


def test_a_head_is_skipped_and_parked_by_the_offset_it_is_expected_at(broker: FakeBroker) -> None:
    broker.failures.care = [(200, done("skip")), (200, done("park", dead_letter_offset="9"))]

    with Admin(broker.url) as admin:
        skipped = admin.skip_head("g", "t", 0, expected_offset=3, reason="poison")
        parked = admin.park_head("g", "t", 0, expected_offset=2**40, reason="poison")

    assert (skipped.head, skipped.is_repeat, skipped.dead_letter_offset) == (4, False, None)
    assert parked.dead_letter_offset == 9
    assert broker.documents == [
        ("0:skip", {"reason": "poison", "expected_offset": "3"}),
        ("0:park", {"reason": "poison", "expected_offset": str(2**40)}),
    ]


async def test_a_queue_is_suspended_and_resumed_by_an_async_admin(broker: FakeBroker) -> None:
    said = {"since": "2026-11-22T00:00:00.000Z", "by": "ann", "reason": "x"}
    broker.failures.care = [
        (200, done("suspend", suspension=said)),
        (200, done("resume", is_repeat=True)),
    ]

    async with AsyncAdmin(broker.url) as admin:
        suspended = await admin.suspend_queue("g", "t", 0, reason="x")
        resumed = await admin.resume_queue("g", "t", 0, reason="x", expected_offset=0)

    assert (suspended.is_suspended, resumed.is_suspended, resumed.is_repeat) == (True, False, True)
    assert [document for _, document in broker.documents] == [
        {"reason": "x"},
        {"reason": "x", "expected_offset": "0"},
    ]


@pytest.mark.parametrize(
    ("code", "kind"),
    [("head_moved", HeadMoved), ("not_ordered", NotOrdered), ("offsets_moved", OffsetsMoved)],
)
def test_refusals_have_names_of_their_own(
    broker: FakeBroker, code: str, kind: type[Conflict]
) -> None:
    broker.failures.care = [(409, refused(code))]

    with Admin(broker.url) as admin, pytest.raises(kind):
        admin.skip_head("g", "t", 0, expected_offset=3, reason="x")


def test_a_preview_says_what_it_would_do_and_is_applied_and_undone(broker: FakeBroker) -> None:
    broker.failures.care = [(200, PREVIEW), (200, RESET), (200, RESET)]

    with Admin(broker.url) as admin:
        found = admin.preview_offsets("g", "time", time_ms=5, topic="t", queues=[0, 1])
        reset = admin.apply_offsets("g", found.token, reason="x")
        admin.undo_offsets("g", reset.undo_id, reason="y", moved_max=3)

    assert [(one.replay, one.skip) for one in found.queues] == [(5, 0), (0, 3)]
    assert found.queues[1] == PlannedOffset(
        topic="t", queue=1, current=1, target=4, was_clamped=True
    )
    assert reset.queues == (QueueMoved(topic="t", queue=0, before=5, after=0),)
    assert [document for _, document in broker.documents] == [
        {"target": "time", "time": 5, "topic": "t", "queues": [0, 1]},
        {"token": "promise", "reason": "x"},
        {"undo_id": "7", "reason": "y", "moved_max": 3},
    ]


def test_a_bad_name_is_refused_before_anybody_is_asked(broker: FakeBroker) -> None:
    with Admin(broker.url) as admin, pytest.raises(InvalidName):
        admin.preview_offsets("", "earliest")

    assert broker.requests == []


def test_mq_attends_to_a_queue_and_says_where_it_is(broker: FakeBroker) -> None:
    said = {"since": "2026-11-22T00:00:00.000Z", "by": "ann", "reason": "x"}
    broker.failures.care = [
        (200, done("skip")),
        (200, done("park", dead_letter_offset="9")),
        (200, done("suspend", suspension=said, is_repeat=True)),
        (200, done("resume")),
        (409, refused("head_moved")),
    ]

    answers = [
        mq(broker, "group", "skip", "g", "t", "0", "--expect", "3", "--reason", "x"),
        mq(broker, "group", "park", "g", "t", "0", "--expect", "3", "--reason", "x"),
        mq(broker, "group", "suspend", "g", "t", "0", "--reason", "x"),
        mq(broker, "group", "resume", "g", "t", "0", "--reason", "x"),
        mq(broker, "group", "skip", "g", "t", "0", "--expect", "3", "--reason", "x"),
    ]

    assert [answer.stdout for answer in answers] == [
        b"4\topen\n", b"4\topen\tdead letter 9\n", b"4\tsuspended\tdone before\n",
        b"4\topen\n", b"",
    ]  # fmt: skip
    assert [answer.returncode for answer in answers] == [0, 0, 0, 0, 1]
    assert b"[head_moved]" in answers[-1].stderr


def test_what_mq_previews_mq_applies_and_undoes(broker: FakeBroker) -> None:
    broker.failures.care = [(200, PREVIEW), (200, RESET), (200, RESET)]

    shown = mq(broker, "group", "preview", "g", "--shift", "-5", "--topic", "t", "--queue", "0")
    applied = mq(broker, "group", "apply", "g", "-", "--reason", "x", data=shown.stdout)
    undone = mq(broker, "group", "undo", "g", "7", "--reason", "y")

    assert shown.stdout.decode().splitlines() == [
        "topic\tqueue\tcurrent\ttarget\treplay\tskip",
        "t\t0\t5\t0\t5\t0",
        "t\t1\t1\t4\t0\t3",
        "token\tpromise",
    ]
    assert applied.stdout == b"topic\tqueue\tbefore\tafter\nt\t0\t5\t0\nundo_id\t7\n"
    assert undone.returncode == 0
    assert [document for _, document in broker.documents] == [
        {"target": "shift", "shift": "-5", "topic": "t", "queues": [0]},
        {"token": "promise", "reason": "x"},
        {"undo_id": "7", "reason": "y"},
    ]
