"""What the control verbs of groups at work promise, wherever the engine lives."""

import asyncio

import pytest

from apps.engine.api import EngineAPI, EngineControl
from apps.engine.errors import InvalidArgument, LockLost
from apps.engine.grouptypes import (
    BlockedHead,
    GroupHistory,
    HeartbeatRequest,
    HeartbeatResult,
    LockChange,
    MemberState,
    QueueBacklog,
    QueueLockState,
    QueuePlace,
    Rebalance,
    Subscription,
)
from apps.engine.testing.contracts.control import CATALOG, ControlFixtures, receive, send
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import FilterType, MessageModel, OffsetCommit, Strategy

FIRST = QueuePlace(topic="orders", queue=0)
# The longest that any member of an engine with usual settings may be silent.
SILENT_MS = 30_000


async def beat(
    engine: EngineAPI, client_id: str = "a", group: str = "g", **about: object
) -> HeartbeatResult:
    """Send a heartbeat of a member that wants the topic `orders`, and do not wait."""
    asked: dict[str, object] = {"subscriptions": (Subscription(topic="orders"),)}
    request = HeartbeatRequest(group=group, client_id=client_id, **(asked | about))  # type: ignore[arg-type]
    return await engine.heartbeat(request)


class GroupControlContract(ControlFixtures):
    """Inherit, supply `engine` and `control`, and the verbs' promises are tested on it."""

    async def test_a_new_engine_has_no_groups(self, control: EngineControl) -> None:
        assert await self.ask(control.members) == []
        assert await self.ask(control.rebalances) == []
        assert await self.ask(control.queue_locks) == []
        assert await self.ask(control.backlog) == []
        nothing = GroupHistory(transitions=(), rebalances=(), last=-1)
        assert await self.ask(lambda: control.history(-1)) == nothing
        assert await self.ask(lambda: control.rebalance(reason="beat")) == []
        assert await self.ask(lambda: control.release_lock("g", FIRST, reason="stuck")) is None

    async def test_a_member_is_listed_with_all_it_said(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        engine.publish_catalog(CATALOG)
        wanted = (
            Subscription(topic="bills", filter="a = '1'", filter_type=FilterType.SQL92),
            Subscription(topic="orders", filter="A || B"),
        )
        head = BlockedHead(topic="orders", queue=0, queue_offset=3, attempts=2, reason="no stock")
        joined_ms = clock.wall_ms()
        answer = await beat(
            engine,
            subscriptions=wanted,
            ordered=True,
            strategy=Strategy.AVG_BY_CIRCLE,
            site="north",
            blocked=(head,),
        )
        await beat(engine, "b", "h", model=MessageModel.BROADCASTING)
        clock.advance(1_000)

        of_one = await self.ask(lambda: control.members("g"))
        of_all = await self.ask(control.members)

        assert of_one == [
            MemberState(
                group="g",
                client_id="a",
                subscriptions=wanted,
                model=MessageModel.CLUSTERING,
                ordered=True,
                strategy=Strategy.AVG_BY_CIRCLE,
                site="north",
                generation=answer.generation,
                joined_ms=joined_ms,
                last_seen_ms=joined_ms,
                is_waiting=False,
                assignment={"orders": (0, 1), "bills": (0,)},
                conflicts=(),
                blocked=(head,),
            )
        ]
        assert [state.client_id for state in of_all] == ["a", "b"]
        assert of_all[1].model is MessageModel.BROADCASTING

    async def test_conflicting_subscriptions_are_told_of_both_sides(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        engine.publish_catalog(CATALOG)
        await beat(engine, "a")
        await beat(engine, "b", subscriptions=(Subscription(topic="orders", filter="A"),))

        states = await self.ask(control.members)

        assert [state.conflicts for state in states] == [("orders",), ("orders",)]

    async def test_a_member_whose_heartbeat_is_parked_is_waiting(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        engine.publish_catalog(CATALOG)
        generation = (await beat(engine)).generation
        parked = asyncio.create_task(beat(engine, generation=generation, wait_ms=30_000))
        while engine.status().parked == 0:  # noqa: ASYNC110  The engine tells nobody.
            await asyncio.sleep(0)
        clock.advance(2 * SILENT_MS)

        changed = await self.ask(lambda: control.rebalance(reason="beat"))
        (state,) = await self.ask(control.members)
        await engine.leave("g", "a")
        await parked

        assert changed == []
        assert (state.is_waiting, state.last_seen_ms) == (True, clock.wall_ms())
        assert await self.ask(control.members) == []

    async def test_the_assignment_in_force_is_told_with_its_reason(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        engine.publish_catalog(CATALOG)
        await beat(engine, "a")
        answer = await beat(engine, "b")
        await beat(engine, "c", "h")

        of_one = await self.ask(lambda: control.rebalances("g"))
        of_all = await self.ask(control.rebalances)

        assert of_one == [
            Rebalance(
                number=1,
                at_ms=clock.wall_ms(),
                group="g",
                generation=answer.generation,
                reason="join",
                strategy=Strategy.AVG,
                assignment={"a": {"orders": (0,)}, "b": {"orders": (1,)}},
                queues_moved=1,
            )
        ]
        assert [line.group for line in of_all] == ["g", "h"]
        assert await self.ask(lambda: control.rebalances("nobody")) == []

    async def test_a_rebalance_shares_out_what_silent_members_had(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        engine.publish_catalog(CATALOG)
        await beat(engine, "a")
        clock.advance(SILENT_MS - 1)
        await beat(engine, "b")
        clock.advance(1)

        (changed,) = await self.ask(lambda: control.rebalance(reason="beat"))
        again = await self.ask(lambda: control.rebalance(reason="beat"))

        assert changed.assignment == {"b": {"orders": (0, 1)}}
        assert changed.reason == "expiry"
        assert again == []
        assert [state.client_id for state in await self.ask(control.members)] == ["b"]

    async def test_a_rebalance_needs_a_reason(self, control: EngineControl) -> None:
        with pytest.raises(InvalidArgument):
            await self.ask(lambda: control.rebalance(reason=""))

    async def test_locks_are_listed_with_what_is_left_of_them(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        engine.publish_catalog(CATALOG)
        acquired_ms = clock.wall_ms()
        answer = await engine.acquire_locks("g", "a", [FIRST])
        clock.advance(61_000)

        (lock,) = await self.ask(control.queue_locks)

        assert lock == QueueLockState(
            group="g",
            topic="orders",
            queue=0,
            owner="a",
            epoch=answer.locked[0].epoch,
            acquired_ms=acquired_ms,
            expires_in_ms=-1_000,
            lease_ms=60_000,
        )
        assert await self.ask(lambda: control.queue_locks("h")) == []

    async def test_refusals_of_a_lock_are_counted_by_minute_and_by_who_was_refused(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        engine.publish_catalog(CATALOG)
        await engine.acquire_locks("g", "a", [FIRST])
        for client_id in ("b", "b", "c"):
            await engine.acquire_locks("g", client_id, [FIRST])

        found = await self.ask(control.lock_refusals)
        minute_ms = clock.wall_ms() - clock.wall_ms() % 60_000

        assert [(row.client_id, row.count) for row in found] == [("b", 2), ("c", 1)]
        assert {(row.group, row.topic, row.queue, row.owner) for row in found} == {
            ("g", FIRST.topic, FIRST.queue, "a")
        }
        assert {row.minute_ms for row in found} == {minute_ms}
        assert await self.ask(lambda: control.lock_refusals(minute_ms + 1)) == []

    async def test_an_old_release_leaves_a_lock_alone_that_was_taken_anew(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        engine.publish_catalog(CATALOG)
        old = (await engine.acquire_locks("g", "a", [FIRST])).locked[0].epoch
        await engine.release_locks("g", "a", [FIRST], epochs={FIRST: old})
        assert await self.ask(lambda: control.queue_locks("g")) == []
        epoch = (await engine.acquire_locks("g", "a", [FIRST])).locked[0].epoch

        late = await engine.release_locks("g", "a", [FIRST], epochs={FIRST: old})

        assert (late.locked, late.refused) == ((), ())
        (lock,) = await self.ask(lambda: control.queue_locks("g"))
        assert (lock.owner, lock.epoch) == ("a", epoch)

    async def test_an_operator_takes_a_lock_from_the_owner_he_expects(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        engine.publish_catalog(CATALOG)
        epoch = (await engine.acquire_locks("g", "a", [FIRST])).locked[0].epoch

        with pytest.raises(LockLost, match="'a'"):
            await self.ask(
                lambda: control.release_lock("g", FIRST, reason="stuck", expected_owner="b")
            )
        line = await self.ask(
            lambda: control.release_lock("g", FIRST, reason="stuck", expected_owner="a")
        )

        assert line is not None
        assert (line.change, line.previous_owner, line.owner) == (LockChange.FORCED, "a", "")
        assert (line.epoch, line.reason, line.at_ms) == (epoch, "stuck", clock.wall_ms())
        assert await self.ask(control.queue_locks) == []

    async def test_a_heartbeat_that_is_read_after_the_leaving_makes_no_member(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        engine.publish_catalog(CATALOG)
        known = await beat(engine, "a")
        await engine.leave("g", "a")

        late = await beat(engine, "a", generation=known.generation, wait_ms=30_000)
        members = await self.ask(control.members)
        again = await beat(engine, "a")

        assert (late.assignment, members) == ({}, [])
        assert again.assignment == known.assignment

    async def test_history_tells_every_change_once(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        engine.publish_catalog(CATALOG)
        await beat(engine, "a")
        await engine.acquire_locks("g", "a", [FIRST])
        first = await self.ask(lambda: control.history(-1))

        await engine.leave("g", "a")
        rest = await self.ask(lambda: control.history(first.last))

        assert [line.reason for line in first.rebalances] == ["join"]
        assert [line.change for line in first.transitions] == [LockChange.ACQUIRED]
        assert [line.assignment for line in rest.rebalances] == [{}]
        assert [line.change for line in rest.transitions] == [LockChange.RELEASED]
        assert rest.last > first.last
        nothing = GroupHistory(transitions=(), rebalances=(), last=rest.last)
        assert await self.ask(lambda: control.history(rest.last)) == nothing

    async def test_backlog_tells_what_is_left_to_do_and_who_does_it(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        engine.publish_catalog(CATALOG)
        await beat(engine, "a")
        epoch = (await engine.acquire_locks("g", "a", [FIRST])).locked[0].epoch
        await send(engine, queue=0, count=5)
        await engine.commit_offsets("g", [OffsetCommit(topic="orders", queue=0, queue_offset=2)])
        clock.advance(4_000)

        rows = await self.ask(lambda: control.backlog("g"))

        assert rows[0] == QueueBacklog(
            group="g",
            topic="orders",
            queue=0,
            committed=2,
            delivered=2,
            max_offset=5,
            in_flight=0,
            oldest_age_ms=4_000,
            stalled_ms=None,
            head_attempts=None,
            owner="a",
            lock_epoch=epoch,
            lock_expires_in_ms=56_000,
        )
        assert [(row.queue, row.max_offset) for row in rows] == [(0, 5), (1, 0)]
        assert await self.ask(lambda: control.backlog("h")) == []

    async def test_a_receive_alone_makes_no_member(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        engine.publish_catalog(CATALOG)
        await receive(engine)

        assert await self.ask(control.members) == []

    async def test_a_heartbeat_makes_a_client_known(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        engine.publish_catalog(CATALOG)
        await beat(engine)

        (client,) = await self.ask(control.clients)

        assert (client.group, client.client_id, client.topics) == ("g", "a", ("orders",))

    async def test_assignments_are_counted(self, engine: EngineAPI, control: EngineControl) -> None:
        engine.publish_catalog(CATALOG)
        await beat(engine, "a")
        await beat(engine, "b")
        await beat(engine, "b")

        assert (await self.ask(control.status)).rebalances == 2
