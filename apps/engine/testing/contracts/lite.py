"""What engines promise about lite topics, wherever they live. Knows the engine's verbs only."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from apps.engine.api import EngineAPI, EngineControl
from apps.engine.codec.batch import starts_of
from apps.engine.codec.layout import LITE_PROPERTY
from apps.engine.codec.litenames import lite_topic
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.errors import (
    InvalidArgument,
    InvalidLiteTopic,
    LiteSubscriptionsExhausted,
    MessageIllegal,
    NotPermitted,
    UnknownTopic,
)
from apps.engine.limits import LITE_SILENT_MS, LITE_SUBSCRIPTIONS_MAX
from apps.engine.litetypes import (
    LiteAction,
    LiteBacklog,
    LiteModel,
    LiteSync,
    LiteSynced,
    LiteTotal,
)
from apps.engine.testing.contracts.control import ControlFixtures
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import (
    AckMode,
    CatalogSnapshot,
    ConsumeFrom,
    GroupSpec,
    Lease,
    ReceiveRequest,
    ReceiveResult,
    RecordBatch,
    Settled,
    Special,
    TopicSpec,
    TopicTotal,
    TopicType,
)

PARENT = "chats"
CATALOG = CatalogSnapshot(
    version=1,
    topics={
        PARENT: TopicSpec(name=PARENT, queue_count=4, type=TopicType.LITE, lite_ttl_ms=900_000),
        "mail": TopicSpec(name="mail", queue_count=1, type=TopicType.LITE),
        "plain": TopicSpec(name="plain", queue_count=1),
    },
    groups={
        "alone": GroupSpec(name="alone", lite_model=LiteModel.EXCLUSIVE),
        "late": GroupSpec(name="late", consume_from=ConsumeFrom.LAST),
        "off": GroupSpec(name="off", enabled=False),
    },
)


def lite_batch(
    name: str, *bodies: str, parent: str = PARENT, special: Special = Special.NOTHING
) -> RecordBatch:
    """Return messages of a lite topic, as a door builds them."""
    topic = lite_topic(parent, name)
    properties = {LITE_PROPERTY: name}
    if special is Special.DELAY:
        properties["DELAY"] = "3"
    records = [
        encode_record(
            topic=topic.encode(),
            queue=0,
            body=body.encode(),
            properties=encode_properties(properties),
        )
        for body in bodies
    ]
    return RecordBatch(
        topic=topic,
        queue=0,
        payload=bytearray().join(records),
        sizes=np.array([len(record) for record in records], dtype=np.int32),
    )


async def send(engine: EngineAPI, name: str, *bodies: str, parent: str = PARENT) -> None:
    """Store messages in a lite topic."""
    await engine.append([lite_batch(name, *bodies, parent=parent)], ack=AckMode.SYNC)


async def subscribe(
    engine: EngineAPI,
    client_id: str,
    *names: str,
    group: str = "g",
    action: LiteAction = LiteAction.ADD,
    parent: str = PARENT,
    begin: ConsumeFrom | None = None,
    begin_offset: int | None = None,
    begin_tail: int | None = None,
) -> LiteSynced:
    """Change a client's set."""
    return await engine.sync_lite(
        LiteSync(
            group=group,
            client_id=client_id,
            topic=parent,
            action=action,
            names=names,
            begin=begin,
            begin_offset=begin_offset,
            begin_tail=begin_tail,
        )
    )


async def receive(
    engine: EngineAPI,
    client_id: str,
    *,
    group: str = "g",
    most: int = 32,
    wait_ms: int = 0,
    attempt_id: str = "",
    invisible_ms: int = 60_000,
) -> ReceiveResult:
    """Receive from a client's lite topics."""
    return await engine.receive(
        ReceiveRequest(
            group=group,
            topics=(PARENT,),
            client_id=client_id,
            messages_max=most,
            wait_ms=wait_ms,
            attempt_id=attempt_id,
            invisible_ms=invisible_ms,
            is_lite=True,
        )
    )


def handles_of(leases: Sequence[Lease]) -> list[str]:
    """Return a handle for each message."""
    return [
        f"{lease.token}:{decode_record(lease.block.payload, at).queue_offset}"
        for lease in leases
        for at in starts_of(lease.block.sizes).tolist()
    ]


def bodies_of(result: ReceiveResult) -> list[str]:
    """Return the bodies of what was handed out, in order."""
    return [
        decode_record(lease.block.payload, at).body.decode()
        for lease in result.leases
        for at in starts_of(lease.block.sizes).tolist()
    ]


class LiteContract(ControlFixtures):
    """Inherit, supply `engine` and `control`, and what is promised of lite topics is tested."""

    @pytest.fixture(autouse=True)
    def _catalog(self, engine: EngineAPI) -> None:
        engine.publish_catalog(CATALOG)

    async def test_a_client_receives_what_it_is_subscribed_to_and_nothing_else(
        self, engine: EngineAPI
    ) -> None:
        await send(engine, "ann", "a1", "a2")
        await send(engine, "bob", "b1")
        synced = await subscribe(engine, "c", "ann", "nobody")

        assert synced == LiteSynced(count=2)
        assert bodies_of(await receive(engine, "c")) == ["a1", "a2"]
        assert bodies_of(await receive(engine, "stranger")) == []

    async def test_a_lease_blocks_its_lite_topic_for_the_group_and_no_other(
        self, engine: EngineAPI
    ) -> None:
        await send(engine, "ann", "a1", "a2")
        await send(engine, "bob", "b1")
        await subscribe(engine, "c", "ann", "bob")
        await subscribe(engine, "d", "ann")
        await subscribe(engine, "c", "ann", group="h")

        first = await receive(engine, "c", most=1)
        (one,) = bodies_of(first)
        other = bodies_of(await receive(engine, "c"))
        elsewhere = bodies_of(await receive(engine, "c", group="h"))
        await engine.ack("g", handles_of(first.leases))

        assert elsewhere == ["a1", "a2"]
        if one == "a1":
            assert other == ["b1"]
            assert bodies_of(await receive(engine, "d")) == ["a2"]
        else:
            assert (one, other) == ("b1", ["a1", "a2"])

    async def test_a_failed_message_comes_again_in_its_place(
        self, engine: EngineAPI, clock: ManualClock
    ) -> None:
        await send(engine, "ann", "a1", "a2")
        await subscribe(engine, "c", "ann")
        first = await receive(engine, "c", most=1)

        await engine.nack("g", handles_of(first.leases), delay_ms=1_000)

        assert bodies_of(await receive(engine, "c")) == []
        clock.advance(1_000)
        again = await receive(engine, "c", most=1)
        assert bodies_of(again) == ["a1"]
        assert again.leases[0].attempt == 2

    async def test_a_message_that_is_put_off_comes_again_and_was_not_tried(
        self, engine: EngineAPI, clock: ManualClock
    ) -> None:
        await send(engine, "ann", "a1", "a2")
        await subscribe(engine, "c", "ann")
        attempts = []
        for is_failure in (False, True, False, False):
            (lease,) = (await receive(engine, "c", most=1)).leases
            attempts.append(lease.attempt)
            handles = handles_of([lease])
            (result,) = await engine.nack("g", handles, delay_ms=1_000, is_failure=is_failure)
            assert result.outcome is Settled.OK
            assert bodies_of(await receive(engine, "c")) == []
            clock.advance(1_000)

        last = await receive(engine, "c", most=1)

        assert attempts == [1, 1, 2, 2]
        assert bodies_of(last) == ["a1"]
        assert last.leases[0].attempt == 2

    async def test_what_is_put_off_is_so_for_a_time(self, engine: EngineAPI) -> None:
        await send(engine, "ann", "a1")
        await subscribe(engine, "c", "ann")
        handles = handles_of((await receive(engine, "c")).leases)

        for wrong in ({}, {"delay_level": 1}):
            with pytest.raises(InvalidArgument):
                await engine.nack("g", handles, is_failure=False, **wrong)  # type: ignore[arg-type]

    async def test_a_message_that_nobody_settles_comes_again(
        self, engine: EngineAPI, clock: ManualClock
    ) -> None:
        await send(engine, "ann", "a1")
        await subscribe(engine, "c", "ann")
        await receive(engine, "c", invisible_ms=5_000)

        clock.advance(5_000)

        assert bodies_of(await receive(engine, "c")) == ["a1"]

    async def test_who_waits_is_told_of_a_message_and_of_an_addition(
        self, engine: EngineAPI
    ) -> None:
        await subscribe(engine, "c", "ann")
        waiting = asyncio.create_task(receive(engine, "c", wait_ms=30_000))
        while engine.status().parked == 0:  # noqa: ASYNC110  The engine tells nobody.
            await asyncio.sleep(0)
        await send(engine, "ann", "a1")
        told = await waiting
        await engine.ack("g", handles_of(told.leases))
        await send(engine, "bob", "b1")
        waiting = asyncio.create_task(receive(engine, "c", wait_ms=30_000))
        while engine.status().parked == 0:  # noqa: ASYNC110  The engine tells nobody.
            await asyncio.sleep(0)
        await subscribe(engine, "c", "bob")

        assert bodies_of(told) == ["a1"]
        assert bodies_of(await waiting) == ["b1"]

    async def test_a_set_is_changed_in_part_and_whole(self, engine: EngineAPI) -> None:
        await subscribe(engine, "c", "ann", "bob")
        fewer = await subscribe(engine, "c", "bob", action=LiteAction.REMOVE)
        whole = await subscribe(engine, "c", "bob", "eve", "joe", action=LiteAction.REPLACE)
        await send(engine, "ann", "a1")
        await send(engine, "eve", "e1")

        assert (fewer.count, whole.count) == (1, 3)
        assert bodies_of(await receive(engine, "c")) == ["e1"]
        assert (await subscribe(engine, "c", action=LiteAction.CLEAR)).count == 0

    async def test_a_client_may_leave_whatever_has_become_of_the_parent(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        await subscribe(engine, "c", "ann")
        engine.publish_catalog(CatalogSnapshot(version=2))

        left = await subscribe(engine, "c", action=LiteAction.CLEAR)

        assert left == LiteSynced(count=0)
        assert await self.ask(lambda: control.lite_subscriptions("g")) == ()

    async def test_the_newest_subscriber_has_a_lite_topic_alone(self, engine: EngineAPI) -> None:
        await subscribe(engine, "old", "ann", "bob", group="alone")
        taken = await subscribe(engine, "new", "ann", group="alone")
        await send(engine, "ann", "a1")

        assert taken == LiteSynced(count=1, evicted=(("old", "ann"),))
        assert bodies_of(await receive(engine, "old", group="alone")) == []
        assert bodies_of(await receive(engine, "new", group="alone")) == ["a1"]

    async def test_who_lost_a_lite_topic_comes_back_by_subscribing_and_not_by_its_whole_set(
        self, engine: EngineAPI
    ) -> None:
        await subscribe(engine, "old", "ann", "bob", group="alone")
        await subscribe(engine, "new", "ann", group="alone")

        again = await subscribe(
            engine, "old", "ann", "bob", group="alone", action=LiteAction.REPLACE
        )
        anew = await subscribe(engine, "old", "ann", group="alone")

        assert again == LiteSynced(count=1, evicted=(("old", "ann"),))
        assert anew == LiteSynced(count=2, evicted=(("new", "ann"),))

    async def test_who_has_said_its_set_without_it_may_have_it_in_its_set_again(
        self, engine: EngineAPI
    ) -> None:
        await subscribe(engine, "old", "ann", "bob", group="alone")
        await subscribe(engine, "new", "ann", group="alone")
        await subscribe(engine, "old", "bob", group="alone", action=LiteAction.REPLACE)

        again = await subscribe(
            engine, "old", "ann", "bob", group="alone", action=LiteAction.REPLACE
        )

        assert again == LiteSynced(count=2, evicted=(("new", "ann"),))

    async def test_a_clients_lag_is_what_its_group_has_not_settled_of_its_lite_topics(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        await send(engine, "ann", "a1", "a2", "a3")
        await send(engine, "bob", "b1")
        await send(engine, "eve", "e1")
        await subscribe(engine, "c", "ann", "bob", "nobody")
        before = await self.ask(lambda: control.lite_subscriptions("g"))
        leases = (await receive(engine, "c")).leases
        out = await self.ask(lambda: control.lite_subscriptions("g"))
        handles = [f"{lease.token}:0" for lease in leases]
        await engine.ack("g", handles)
        after = await self.ask(lambda: control.lite_subscriptions("g"))

        assert [client.lag for client in before] == [4]
        assert [client.lag for client in out] == [4]
        assert [client.lag for client in after] == [4 - len(handles)]

    async def test_what_lite_topics_took_and_hold_is_told_of_their_parent(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        before = await self.ask(lambda: (control.lite_totals(), control.topic_totals()))
        await send(engine, "ann", "a1", "a2", "a3")
        await send(engine, "bob", "b1")
        after = await self.ask(lambda: (control.lite_totals(), control.topic_totals()))

        of_type = {one.name for one in CATALOG.topics.values() if one.type is TopicType.LITE}
        assert set(before[0]) == set(after[0]) == of_type
        assert before[0][PARENT] == LiteTotal(came=0, held=0)
        assert after[0][PARENT] == LiteTotal(came=4, held=4)
        assert (before[1][PARENT], after[1][PARENT]) == (
            TopicTotal(sent=0, held=0),
            TopicTotal(sent=4, held=4),
        )

    async def test_what_a_group_has_left_to_do_is_of_all_lite_topics_and_told_once(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        await send(engine, "ann", "a1", "a2", "a3")
        clock.advance(2_000)
        await send(engine, "bob", "b1")
        await send(engine, "eve", "e1")
        nobody = await self.ask(control.lite_backlog)
        await subscribe(engine, "c", "ann", "bob")
        clock.advance(1_000)
        before = await self.ask(lambda: control.lite_backlog("g"))
        leases = (await receive(engine, "c")).leases
        out = await self.ask(lambda: control.lite_backlog("g"))
        await engine.ack("g", [handle for handle in handles_of(leases) if handle[-2:] != ":2"])
        (after,) = await self.ask(control.lite_backlog)
        other = await self.ask(lambda: control.lite_backlog("other"))

        assert (nobody, other) == ([], [])
        at_first = LiteBacklog(
            group="g",
            topic=PARENT,
            arrived=before[0].arrived,
            lag=5,
            topics_behind=3,
            in_flight=0,
            ready=5,
            oldest_age_ms=3_000,
        )
        assert before == [at_first]
        assert [(row.lag, row.in_flight, row.ready) for row in out] == [(5, 4, 1)]
        assert (after.lag, after.topics_behind, after.in_flight, after.ready) == (2, 2, 1, 1)
        assert after.passed == (before[0].passed or 0) + 3

    async def test_where_a_group_begins_at_the_end_it_is_behind_in_what_it_asked_for(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        await send(engine, "ann", "a1")
        await send(engine, "bob", "b1")
        await subscribe(engine, "c", "ann", "new", group="late")
        at_the_end = await self.ask(lambda: control.lite_backlog("late"))
        await send(engine, "ann", "a2")
        await send(engine, "bob", "b2")
        await send(engine, "new", "n1", "n2")
        later = await self.ask(lambda: control.lite_backlog("late"))

        assert [(row.lag, row.topics_behind) for row in at_the_end] == [(0, 0)]
        assert [(row.lag, row.topics_behind) for row in later] == [(3, 2)]

    async def test_a_message_that_nobody_settles_in_time_is_with_nobody(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        await send(engine, "ann", "a1")
        await subscribe(engine, "c", "ann")
        await receive(engine, "c", invisible_ms=5_000)
        clock.advance(5_000)
        await receive(engine, "stranger")

        (row,) = await self.ask(control.lite_backlog)

        assert (row.lag, row.in_flight, row.ready) == (1, 0, 1)

    async def test_a_silent_client_is_forgotten(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        await subscribe(engine, "silent", "ann")
        clock.advance(LITE_SILENT_MS // 2)
        await subscribe(engine, "here", "bob", "ann")
        clock.advance(LITE_SILENT_MS // 2)
        both = await self.ask(lambda: control.lite_subscriptions("g"))
        clock.advance(1)
        one = await self.ask(lambda: control.lite_subscriptions("g"))

        assert [client.client_id for client in both] == ["here", "silent"]
        assert [(client.client_id, client.names, client.count) for client in one] == [
            ("here", ("ann", "bob"), 2)
        ]
        assert one[0].seen_ms == clock.wall_ms() - LITE_SILENT_MS // 2 - 1

    async def test_a_group_begins_where_it_is_asked_to(self, engine: EngineAPI) -> None:
        await send(engine, "ann", "a1")
        await subscribe(engine, "c", "ann", "bob", group="late")
        await subscribe(engine, "c", "ann", begin=ConsumeFrom.LAST)
        await send(engine, "ann", "a2")
        await send(engine, "bob", "b1")

        assert sorted(bodies_of(await receive(engine, "c", group="late"))) == ["a2", "b1"]
        assert bodies_of(await receive(engine, "c")) == ["a2"]

    async def test_a_group_begins_at_an_offset_or_with_the_last_messages(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        await send(engine, "ann", "a0", "a1", "a2")
        await subscribe(engine, "c", "ann", "new", group="at", begin_offset=2)
        await subscribe(engine, "c", "ann", group="beyond", begin_offset=99)
        await subscribe(engine, "c", "ann", group="tail", begin_tail=2)
        await subscribe(engine, "c", "ann", group="all", begin_tail=99)
        await send(engine, "new", "n0")
        rows = await self.ask(control.lite_backlog)

        assert {row.group: row.lag for row in rows} == {"all": 4, "at": 2, "beyond": 1, "tail": 3}
        assert sorted(bodies_of(await receive(engine, "c", group="at"))) == ["a2", "n0"]
        assert bodies_of(await receive(engine, "c", group="beyond")) == []
        assert bodies_of(await receive(engine, "c", group="tail")) == ["a1", "a2"]
        assert bodies_of(await receive(engine, "c", group="all")) == ["a0", "a1", "a2"]

    async def test_where_a_group_is_no_subscription_moves_it(self, engine: EngineAPI) -> None:
        await send(engine, "ann", "a0", "a1", "a2")
        await subscribe(engine, "c", "ann", begin_offset=1)
        first = await receive(engine, "c", most=1)
        await engine.ack("g", handles_of(first.leases))
        await subscribe(engine, "c", action=LiteAction.CLEAR)

        await subscribe(engine, "c", "ann", begin_offset=0)
        await subscribe(engine, "d", "ann", begin_tail=0)

        assert bodies_of(first) == ["a1"]
        assert bodies_of(await receive(engine, "c")) == ["a2"]

    async def test_a_subscription_that_begins_at_two_places_is_refused(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        with pytest.raises(InvalidArgument):
            await subscribe(engine, "c", "ann", begin=ConsumeFrom.LAST, begin_tail=1)

        assert await self.ask(lambda: control.lite_subscriptions("g")) == ()

    async def test_a_receive_asked_again_by_its_name_is_answered_the_same(
        self, engine: EngineAPI
    ) -> None:
        await send(engine, "ann", "a1", "a2")
        await subscribe(engine, "c", "ann")
        first = await receive(engine, "c", most=1, attempt_id="once")

        again = await receive(engine, "c", most=1, attempt_id="once")

        assert bodies_of(again) == bodies_of(first) == ["a1"]
        outcomes = await engine.ack("g", handles_of(first.leases))
        assert [one.outcome for one in outcomes] == [Settled.OK]

    async def test_lite_topics_are_told_by_name(
        self, engine: EngineAPI, control: EngineControl, clock: ManualClock
    ) -> None:
        await send(engine, "bob", "b1", "b2")
        await send(engine, "ann", "a1")
        await send(engine, "other", "o1", parent="mail")
        await subscribe(engine, "c", "bob", "new")

        page = await self.ask(lambda: control.lite_topics(PARENT))
        behind = await self.ask(lambda: control.lite_topics(PARENT, after="ann", count=1))

        assert (page.total, behind.total) == (2, 2)
        assert [(t.name, t.max_offset, t.subscribers) for t in page.topics] == [
            ("ann", 1, 0),
            ("bob", 2, 1),
        ]
        assert behind.topics == (page.topics[1],)
        assert page.topics[0].topic == lite_topic(PARENT, "ann")
        assert page.topics[0].last_ms == clock.wall_ms()

    async def test_what_is_none_is_refused(self, engine: EngineAPI, control: EngineControl) -> None:
        with pytest.raises(UnknownTopic):
            await subscribe(engine, "c", "ann", parent="plain")
        with pytest.raises(UnknownTopic):
            await self.ask(lambda: control.lite_topics("plain"))
        with pytest.raises(UnknownTopic):
            await send(engine, "ann", "a", parent="plain")
        with pytest.raises(InvalidLiteTopic):
            await subscribe(engine, "c", "a b")
        with pytest.raises(InvalidLiteTopic):
            await subscribe(engine, "c", "x" * 65)
        with pytest.raises(InvalidArgument):
            await subscribe(engine, "", "ann")
        with pytest.raises(NotPermitted):
            await subscribe(engine, "c", "ann", group="off")
        with pytest.raises(InvalidArgument):
            await receive(engine, "")
        with pytest.raises(InvalidArgument):
            await self.ask(lambda: control.lite_topics(PARENT, count=0))
        assert await self.ask(lambda: control.lite_subscriptions("g")) == ()

    async def test_a_group_reads_one_parent(self, engine: EngineAPI) -> None:
        await subscribe(engine, "c", "ann")

        with pytest.raises(NotPermitted):
            await subscribe(engine, "d", "ann", parent="mail")

    async def test_more_than_a_client_may_have_is_refused_and_changes_nothing(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        await subscribe(engine, "c", "ann")
        most = [f"n{number}" for number in range(LITE_SUBSCRIPTIONS_MAX)]

        with pytest.raises(LiteSubscriptionsExhausted):
            await subscribe(engine, "c", *most)

        (client,) = await self.ask(lambda: control.lite_subscriptions("g"))
        assert client.names == ("ann",)
        whole = await subscribe(engine, "c", *most, action=LiteAction.REPLACE)
        assert whole.count == LITE_SUBSCRIPTIONS_MAX

    async def test_delays_and_messages_without_a_lite_topic_are_refused(
        self, engine: EngineAPI, control: EngineControl
    ) -> None:
        delayed = lite_batch("ann", "a", special=Special.DELAY)
        record = encode_record(topic=PARENT.encode(), queue=0, body=b"x")
        bare = RecordBatch(
            topic=PARENT,
            queue=0,
            payload=bytearray(record),
            sizes=np.array([len(record)], dtype=np.int32),
        )

        for batch in (delayed, bare):
            with pytest.raises(MessageIllegal):
                await engine.append([batch], ack=AckMode.SYNC)
        assert (await self.ask(lambda: control.lite_topics(PARENT))).total == 0
