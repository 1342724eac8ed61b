"""What may be wrong with a group: each question has an answer, and unknown is not fine."""

from dataclasses import replace

from apps.console.diagnosis import Finding, Seen, Verdict, findings
from apps.engine.caretypes import Suspension
from apps.engine.grouptypes import MemberState, QueueBacklog, QueueLockState, Subscription
from apps.engine.types import ClientSeen, GroupSpec, MessageModel, Strategy
from apps.groups.blocked import blocked_queues
from tests.web.group_values import left_in_lites

NOW_MS = 1_763_000_000_000
MEMBER = MemberState(
    group="g",
    client_id="a",
    subscriptions=(Subscription(topic="orders"),),
    model=MessageModel.CLUSTERING,
    ordered=True,
    strategy=None,
    site="",
    generation=1,
    joined_ms=NOW_MS,
    last_seen_ms=NOW_MS,
    is_waiting=True,
    assignment={"orders": (0,)},
)
ROW = QueueBacklog(
    group="g",
    topic="orders",
    queue=0,
    committed=5,
    delivered=5,
    max_offset=9,
    in_flight=0,
    oldest_age_ms=1_000,
    stalled_ms=None,
    head_attempts=None,
    owner="a",
    lock_epoch=None,
    lock_expires_in_ms=None,
)
LOCK = QueueLockState(
    group="g", topic="orders", queue=0, owner="a", epoch=1, acquired_ms=NOW_MS, expires_in_ms=9_000
)
WELL = Seen(
    spec=GroupSpec(name="g"),
    members=[MEMBER],
    clients=[],
    backlog=[ROW],
    lites=[],
    blocked=[],
    locks=[LOCK],
    in_per_s=5.0,
    out_per_s=5.0,
    dead_letters=0,
    now_ms=NOW_MS,
    base="/groups/g/",
)


def troubles(seen: Seen) -> list[Finding]:
    return [one for one in findings(seen) if one.verdict == Verdict.TROUBLE.value]


def said(seen: Seen) -> str:
    (one,) = troubles(seen)
    return " ".join(one.details)


def test_a_group_that_is_well_has_no_trouble() -> None:
    assert {one.verdict for one in findings(WELL)} == {Verdict.FINE.value}


def test_a_topic_without_a_reader_is_told_with_what_waits() -> None:
    row = replace(ROW, topic="bills", owner=None)

    assert said(replace(WELL, backlog=[row])) == "bills: nobody reads it, and 4 messages wait."
    reader = ClientSeen(
        group="g",
        client_id="c",
        topics=("bills",),
        first_seen_ms=0,
        last_seen_ms=0,
        is_waiting=True,
    )
    assert troubles(replace(WELL, backlog=[row], clients=[reader])) == []


def test_what_waits_in_lite_topics_is_found() -> None:
    waits = replace(WELL, backlog=[], lites=[left_in_lites("g")])
    slow = replace(waits, in_per_s=50.0)

    assert "inbox: nobody reads it, and 1,204 messages wait." in said(waits)
    assert len(troubles(slow)) == 2


def test_members_that_differ_in_messages_or_strategy_are_named() -> None:
    other = replace(
        MEMBER,
        client_id="b",
        subscriptions=(Subscription(topic="orders", filter="paid"),),
        conflicts=("orders",),
        strategy=Strategy.AVG_BY_CIRCLE,
    )
    mine = replace(MEMBER, strategy=Strategy.CONSISTENT_HASH)

    differ, mixed = troubles(replace(WELL, members=[mine, other]))

    assert differ.details == ["orders: a (*), b (paid)"]
    assert "AVG_BY_CIRCLE" in mixed.details[0]
    assert (
        troubles(
            replace(
                WELL,
                spec=GroupSpec(name="g", strategy=Strategy.AVG),
                members=[mine, replace(other, conflicts=())],
            )
        )
        == []
    )


def test_silent_and_idle_members_are_named() -> None:
    silent = replace(MEMBER, is_waiting=False, last_seen_ms=NOW_MS - 31_000)
    assert said(replace(WELL, members=[silent])) == "a was last heard 31 s ago."

    idle = replace(MEMBER, client_id="b", assignment={})
    assert said(replace(WELL, members=[MEMBER, idle])) == "b has no queue."


def test_a_blocked_head_and_a_suspension_are_two_things() -> None:
    row = replace(ROW, head_attempts=7)
    blocked = blocked_queues([row], [MEMBER], now_ms=NOW_MS)
    assert said(replace(WELL, backlog=[row], blocked=blocked)) == (
        "orders/0 at offset 5, tried 7 times."
    )

    row = replace(ROW, suspension=Suspension(at_ms=NOW_MS, by="ann", reason="a look"))
    blocked = blocked_queues([row], [MEMBER], now_ms=NOW_MS)
    assert said(replace(WELL, backlog=[row], blocked=blocked)) == "orders/0 by ann: a look"


def test_a_lock_of_somebody_else_than_the_owner_is_told() -> None:
    text = said(replace(WELL, locks=[replace(LOCK, owner="b")]))

    assert text == "orders/0 is a's, and b still has its lock."
    assert troubles(replace(WELL, locks=[replace(LOCK, owner="b", expires_in_ms=-1)])) == []


def test_rates_are_compared_where_they_are_known() -> None:
    assert said(replace(WELL, in_per_s=9.0)) == "9.0 messages a second come, 5.0 are done."
    unknown = [
        one for one in findings(replace(WELL, in_per_s=None, dead_letters=None))
        if one.verdict == Verdict.UNKNOWN.value
    ]  # fmt: skip
    assert len(unknown) == 2


def test_a_disabled_group_and_dead_letters_are_told() -> None:
    seen = replace(WELL, spec=GroupSpec(name="g", enabled=False), dead_letters=3)

    assert [one.details for one in troubles(seen)] == [
        ["It is disabled: whoever asks is refused."],
        ["3 wait."],
    ]
