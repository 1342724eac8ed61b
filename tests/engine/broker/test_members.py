"""Who is a member and until when, by a clock that the test moves."""

import random

import pytest

from apps.engine.broker.members import JOIN, SUBSCRIPTION, Members, conflicts
from apps.engine.errors import Overloaded
from apps.engine.grouptypes import HeartbeatRequest, Subscription
from apps.engine.limits import GROUP_CHARACTERS_MAX
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import FilterType, MessageModel, Strategy

TIMEOUT_MS = 30_000
GRACE_MS = 5_000


def a_table(clock: ManualClock, *, members_max: int = 100, group_members_max: int = 100) -> Members:
    return Members(
        clock,
        timeout_ms=TIMEOUT_MS,
        grace_ms=GRACE_MS,
        members_max=members_max,
        group_members_max=group_members_max,
    )


def beat(client_id: str = "a", topic: str = "orders", **about: object) -> HeartbeatRequest:
    asked: dict[str, object] = {"group": "g", "subscriptions": (Subscription(topic=topic),)}
    return HeartbeatRequest(client_id=client_id, **(asked | about))  # type: ignore[arg-type]


def names(members: Members, group: str = "g") -> list[str]:
    return sorted(members.of(group))


def test_a_first_heartbeat_joins_and_the_next_changes_nothing() -> None:
    members = a_table(ManualClock())

    assert members.see(beat()) == JOIN
    version = members.version("g")
    assert members.see(beat()) is None

    assert names(members) == ["a"]
    assert members.version("g") == version


@pytest.mark.parametrize(
    "about",
    [
        {"topic": "bills"},
        {"model": MessageModel.BROADCASTING},
        {"strategy": Strategy.AVG_BY_CIRCLE},
        {"site": "north"},
    ],
)
def test_a_heartbeat_that_wants_something_else_changes_the_group(about: dict[str, object]) -> None:
    members = a_table(ManualClock())
    members.see(beat())
    version = members.version("g")

    assert members.see(beat(**about)) == SUBSCRIPTION  # type: ignore[arg-type]

    assert members.version("g") > version


def test_another_filter_of_the_same_topic_moves_no_queue() -> None:
    members = a_table(ManualClock())
    members.see(beat())

    other = (Subscription(topic="orders", filter="A"),)

    assert members.see(beat(subscriptions=other)) is None
    assert members.of("g")["a"].subscriptions == other


def test_a_silent_member_expires_after_the_time_out_and_not_before() -> None:
    clock = ManualClock()
    members = a_table(clock)
    members.see(beat())
    clock.advance(TIMEOUT_MS - 1)
    assert members.expire() == []

    clock.advance(1)

    assert [member.client_id for member in members.expire()] == ["a"]
    assert names(members) == []
    assert len(members) == 0


def test_a_heartbeat_gives_the_whole_time_out_again() -> None:
    clock = ManualClock()
    members = a_table(clock)
    members.see(beat())
    clock.advance(TIMEOUT_MS - 1)
    members.see(beat())
    clock.advance(TIMEOUT_MS - 1)

    assert members.expire() == []
    clock.advance(1)
    assert len(members.expire()) == 1


def test_a_jump_of_the_wall_clock_expires_nobody() -> None:
    clock = ManualClock()
    members = a_table(clock)
    members.see(beat())

    clock.set_wall(clock.wall_ms() + 86_400_000)

    assert members.expire() == []


def test_a_member_that_waits_is_seen_however_long_it_waits() -> None:
    clock = ManualClock()
    members = a_table(clock)
    members.see(beat())
    member = members.of("g")["a"]

    with members.waiting(member):
        clock.advance(10 * TIMEOUT_MS)
        assert members.expire() == []
        assert members.last_seen_ms(member) == clock.wall_ms()

    clock.advance(TIMEOUT_MS - 1)
    assert members.expire() == []
    clock.advance(1)
    assert members.expire() == [member]


def test_a_member_whose_connection_breaks_while_it_waits_has_a_short_grace() -> None:
    clock = ManualClock()
    members = a_table(clock)
    members.see(beat())
    member = members.of("g")["a"]

    with pytest.raises(GeneratorExit), members.waiting(member):
        raise GeneratorExit

    clock.advance(GRACE_MS - 1)
    assert members.expire() == []
    clock.advance(1)
    assert members.expire() == [member]


def test_a_heartbeat_within_the_grace_makes_a_member_whole_again() -> None:
    clock = ManualClock()
    members = a_table(clock)
    members.see(beat())
    with pytest.raises(GeneratorExit), members.waiting(members.of("g")["a"]):
        raise GeneratorExit
    clock.advance(GRACE_MS - 1)
    members.see(beat())

    clock.advance(TIMEOUT_MS - 1)

    assert members.expire() == []


def test_an_old_connection_that_breaks_late_does_not_hurry_a_member_with_a_new_one() -> None:
    clock = ManualClock()
    members = a_table(clock)
    members.see(beat())
    old = members.waiting(members.of("g")["a"])
    old.__enter__()
    members.see(beat())
    old.__exit__(GeneratorExit, GeneratorExit(), None)

    clock.advance(TIMEOUT_MS - 1)

    assert members.expire() == []


def test_a_member_that_is_refused_a_place_to_wait_keeps_its_time_out() -> None:
    clock = ManualClock()
    members = a_table(clock)
    members.see(beat())

    with pytest.raises(Overloaded), members.waiting(members.of("g")["a"]):
        raise Overloaded("full")

    clock.advance(GRACE_MS)
    assert members.expire() == []


def test_connections_that_break_again_and_again_leave_nothing_behind() -> None:
    clock = ManualClock()
    members = a_table(clock)
    members.see(beat())
    for _ in range(1_000):
        members.see(beat())
        with pytest.raises(GeneratorExit), members.waiting(members.of("g")["a"]):
            raise GeneratorExit
        clock.advance(1_000)
        members.expire()

    clock.advance(GRACE_MS)

    assert len(members.expire()) == 1
    clock.advance(2 * TIMEOUT_MS)
    members.expire()
    assert members.next_look_ms() is None


def test_who_leaves_is_gone_at_once_and_may_come_back() -> None:
    clock = ManualClock()
    members = a_table(clock)
    members.see(beat())

    assert members.leave("g", "a")
    assert not members.leave("g", "a")
    assert members.see(beat()) == JOIN

    clock.advance(TIMEOUT_MS)
    assert len(members.expire()) == 1


def test_a_heartbeat_from_before_the_leaving_is_known_for_the_grace() -> None:
    clock = ManualClock()
    members = a_table(clock)
    members.see(beat())
    left = members.find("g", "a")
    members.leave("g", "a")

    assert members.late(beat(generation=7)) is left
    assert members.late(beat()) is None
    assert members.late(beat("b", generation=7)) is None
    clock.advance(GRACE_MS - 1)
    assert members.late(beat(generation=7)) is left
    clock.advance(1)
    assert members.late(beat(generation=7)) is None


def test_who_came_back_after_leaving_is_a_member_with_any_generation() -> None:
    members = a_table(ManualClock())
    members.see(beat())
    members.leave("g", "a")
    members.see(beat())

    assert members.late(beat(generation=7)) is None


def test_who_left_is_forgotten_when_others_leave_after_the_grace() -> None:
    clock = ManualClock()
    members = a_table(clock)
    for number in range(50):
        members.see(beat(f"c{number}"))
        members.leave("g", f"c{number}")
        clock.advance(GRACE_MS // 4)

    assert len(members._left) == 4


def test_a_group_that_comes_back_has_another_version() -> None:
    members = a_table(ManualClock())
    members.see(beat())
    version = members.version("g")
    members.leave("g", "a")
    assert members.version("g") == 0

    members.see(beat())

    assert members.version("g") > version


def test_too_many_members_are_turned_away_and_known_ones_are_not() -> None:
    members = a_table(ManualClock(), members_max=3, group_members_max=2)
    members.see(beat("a"))
    members.see(beat("b"))
    with pytest.raises(Overloaded, match="'g' has 2 members"):
        members.see(beat("c"))
    members.see(beat("c", group="h"))
    with pytest.raises(Overloaded, match="3 clients"):
        members.see(beat("d", group="i"))

    assert members.see(beat("b")) is None
    assert len(members) == 3
    assert list(members.groups()) == ["g", "h"]


def test_a_group_cannot_want_more_than_can_be_written_down() -> None:
    members = a_table(ManualClock())
    long = (Subscription(topic="orders", filter="x" * (GROUP_CHARACTERS_MAX // 2)),)
    members.see(beat("a", subscriptions=long))

    with pytest.raises(Overloaded, match="want more"):
        members.see(beat("b", subscriptions=long))
    assert names(members) == ["a"]

    members.leave("g", "a")
    assert members.see(beat("b", subscriptions=long)) == JOIN


@pytest.mark.parametrize("seed", range(5))
def test_members_expire_as_a_naive_table_says(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    clock = ManualClock()
    members = a_table(clock)
    due: dict[str, int] = {}

    for _ in range(2_000):
        client_id = rng.choice("abcdefgh")
        match rng.randrange(4):
            case 0:
                members.see(beat(client_id))
                due[client_id] = clock.monotonic_ms() + TIMEOUT_MS
            case 1 if client_id in due:
                members.leave("g", client_id)
                del due[client_id]
            case 2 if client_id in due:
                with pytest.raises(GeneratorExit), members.waiting(members.of("g")[client_id]):
                    raise GeneratorExit
                due[client_id] = clock.monotonic_ms() + GRACE_MS
            case _:
                clock.advance(rng.randrange(8_000))
        gone = {name for name, at_ms in due.items() if at_ms <= clock.monotonic_ms()}
        assert {member.client_id for member in members.expire()} == gone
        for name in gone:
            del due[name]
        assert names(members) == sorted(due)


def test_differing_subscriptions_of_a_topic_are_found() -> None:
    members = a_table(ManualClock())
    sql = Subscription(topic="bills", filter="x = 1", filter_type=FilterType.SQL92)
    members.see(beat("a"))
    members.see(beat("b"))
    members.see(beat("c", subscriptions=(Subscription(topic="orders", filter="A"), sql)))

    found = conflicts(members.of("g").values())

    assert found == {"a": {"orders"}, "b": {"orders"}, "c": {"orders"}}


def test_a_member_that_is_broadcast_to_differs_from_those_that_share() -> None:
    members = a_table(ManualClock())
    members.see(beat("a"))
    members.see(beat("b", model=MessageModel.BROADCASTING))

    assert set(conflicts(members.of("g").values())) == {"a", "b"}
