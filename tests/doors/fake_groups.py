"""Members and locks of dictionaries for the tests of a door: small, and obviously right."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from apps.engine.errors import InvalidArgument, LockLost, NotPermitted, StaleGeneration
from apps.engine.filters.subscription import compile_filter
from apps.engine.grouptypes import (
    GroupHistory,
    HeartbeatRequest,
    HeartbeatResult,
    LockAnswer,
    LockChange,
    LockGrant,
    LockRefusal,
    LockRefused,
    LockTransition,
    MemberState,
    QueueLockState,
    QueuePlace,
    Rebalance,
)
from apps.engine.types import CatalogSnapshot, GroupSpec, MessageModel, Strategy

Place = tuple[str, int]
LEASE_MS = 60_000
GRACE_MS = 5_000
TIMEOUT_MS = 30_000


class FakeGroups:
    """Who is in which group, who has which queue, and who holds which lock."""

    def __init__(self, now_ms: Callable[[], int], catalog: Callable[[], CatalogSnapshot]) -> None:
        self._now_ms = now_ms
        self._catalog = catalog
        self._members: dict[str, dict[str, HeartbeatRequest]] = {}
        self._until_ms: dict[tuple[str, str], int] = {}
        self._left_ms: dict[tuple[str, str], int] = {}
        self._rebalances: dict[str, Rebalance] = {}
        self._locks: dict[tuple[str, Place], QueueLockState] = {}
        self._refused: Counter[tuple[int, str, str, int, str, str]] = Counter()
        self._waiting: set[tuple[str, str]] = set()
        self._changed = asyncio.Event()
        self._fence = 1 << 32
        self.rebalance_count = 0

    def _next_fence(self) -> int:
        self._fence += 1
        return self._fence

    # --- members -------------------------------------------------------------------------------

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResult:
        if not request.client_id.isprintable():
            raise InvalidArgument("client_id has characters that cannot be printed")
        for subscription in request.subscriptions:
            compile_filter(subscription.filter, subscription.filter_type)
        self.check_enabled(request.group)
        key = (request.group, request.client_id)
        members = self._members.setdefault(request.group, {})
        before = members.get(request.client_id)
        if before is None and request.generation and self._now_ms() < self._left_ms.get(key, 0):
            return HeartbeatResult(
                generation=request.generation, assignment={}, heartbeat_ms=TIMEOUT_MS // 3,
                retry_max=self._spec(request.group).retry_max,
            )  # fmt: skip
        members[request.client_id] = request
        self._until_ms[key] = self._now_ms() + TIMEOUT_MS
        if before is None or before.subscriptions != request.subscriptions:
            self._share_out(request.group, "join")
        deadline = asyncio.get_running_loop().time() + request.wait_ms / 1000
        while self._rebalances[request.group].generation == request.generation:
            left_s = deadline - asyncio.get_running_loop().time()
            if left_s <= 0:
                break
            self._waiting.add(key)
            try:
                await asyncio.wait_for(self._changed.wait(), left_s)
            except TimeoutError:
                break
            except asyncio.CancelledError:
                self._until_ms[key] = self._now_ms() + GRACE_MS
                raise
            finally:
                self._waiting.discard(key)
        found = self._rebalances[request.group]
        return HeartbeatResult(
            generation=found.generation,
            assignment=found.assignment.get(request.client_id, {}),
            heartbeat_ms=TIMEOUT_MS // 3,
            retry_max=self._spec(request.group).retry_max,
        )

    async def leave(self, group: str, client_id: str) -> None:
        if self._members.get(group, {}).pop(client_id, None) is not None:
            held = [k for k, lock in self._locks.items() if lock.owner == client_id]
            for key in held:
                del self._locks[key]
            self._left_ms[group, client_id] = self._now_ms() + GRACE_MS
            self._share_out(group, "leave")

    def rebalance(self, *, reason: str, group: str | None = None) -> list[Rebalance]:
        changed = []
        for name, members in self._members.items():
            silent = [c for c in members if self._until_ms[name, c] <= self._now_ms()]
            if silent and group in (None, name):
                for client_id in silent:
                    del members[client_id]
                changed.append(self._share_out(name, reason))
        return changed

    def _share_out(self, group: str, reason: str) -> Rebalance:
        members = self._members[group]
        assignment: dict[str, dict[str, tuple[int, ...]]] = {client: {} for client in members}
        wanted = {item.topic for member in members.values() for item in member.subscriptions}
        for topic in sorted(wanted):
            readers = sorted(
                client
                for client, member in members.items()
                if any(item.topic == topic for item in member.subscriptions)
            )
            queues = range(self._catalog().topics[topic].queue_count)
            for index, client in enumerate(readers):
                is_all = members[client].model is MessageModel.BROADCASTING
                mine = queues if is_all else queues[index :: len(readers)]
                assignment[client][topic] = tuple(mine)
        number = self._next_fence()
        self.rebalance_count += 1
        self._rebalances[group] = Rebalance(
            number=number,
            at_ms=self._now_ms(),
            group=group,
            generation=number,
            reason=reason,
            strategy=Strategy.AVG_BY_CIRCLE,
            assignment=assignment,
            queues_moved=0,
        )
        self._changed.set()
        self._changed = asyncio.Event()
        return self._rebalances[group]

    def owner(self, group: str, place: Place) -> str | None:
        """Return whose queue it is; None where the group shares nothing out."""
        found = self._rebalances.get(group)
        for client_id, topics in found.assignment.items() if found else ():
            if place[1] in topics.get(place[0], ()):
                return client_id
        return None

    def members(self, group: str | None = None) -> list[MemberState]:
        return [
            MemberState(
                group=name,
                client_id=client_id,
                subscriptions=member.subscriptions,
                model=member.model,
                ordered=member.ordered,
                strategy=member.strategy,
                site=member.site,
                generation=member.generation,
                joined_ms=self._now_ms(),
                last_seen_ms=self._now_ms(),
                is_waiting=(name, client_id) in self._waiting,
                assignment=self._rebalances[name].assignment.get(client_id, {}),
                blocked=member.blocked,
            )
            for name, members in sorted(self._members.items())
            for client_id, member in sorted(members.items())
            if group in (None, name)
        ]

    def rebalances(self, group: str | None = None) -> list[Rebalance]:
        return [row for name, row in sorted(self._rebalances.items()) if group in (None, name)]

    # --- locks ---------------------------------------------------------------------------------

    def acquire(self, group: str, client_id: str, places: Sequence[QueuePlace]) -> LockAnswer:
        locked, refused = [], []
        for asked in places:
            place = (asked.topic, asked.queue)
            held = self.lock(group, place)
            owner = held.owner if held else self.owner(group, place) or client_id
            if owner != client_id:
                refused.append(LockRefusal(topic=place[0], queue=place[1], owner=owner))
                self._refused[self._now_ms(), group, *place, owner, client_id] += 1
                continue
            epoch = held.epoch if held else self._next_fence()
            self._locks[group, place] = QueueLockState(
                group=group,
                topic=place[0],
                queue=place[1],
                owner=client_id,
                epoch=epoch,
                acquired_ms=self._now_ms(),
                expires_in_ms=self._now_ms() + LEASE_MS,
                lease_ms=LEASE_MS,
            )
            locked.append(
                LockGrant(topic=place[0], queue=place[1], epoch=epoch, expires_in_ms=LEASE_MS)
            )
        return LockAnswer(locked=tuple(locked), refused=tuple(refused))

    def release(
        self,
        group: str,
        client_id: str,
        places: Sequence[QueuePlace],
        *,
        epochs: Mapping[QueuePlace, int] | None = None,
    ) -> LockAnswer:
        refused = []
        for asked in places:
            held = self.lock(group, (asked.topic, asked.queue))
            if held is None:
                continue
            if held.owner == client_id:
                if (epochs or {}).get(asked, held.epoch) != held.epoch:
                    continue
                del self._locks[group, (asked.topic, asked.queue)]
            else:
                refused.append(LockRefusal(topic=asked.topic, queue=asked.queue, owner=held.owner))
        return LockAnswer(locked=(), refused=tuple(refused))

    def lock(self, group: str, place: Place) -> QueueLockState | None:
        """Return the lock of a queue while it lasts; `expires_in_ms` is the moment of its end."""
        found = self._locks.get((group, place))
        return None if found is None or found.expires_in_ms <= self._now_ms() else found

    def queue_locks(self, group: str | None = None) -> list[QueueLockState]:
        return [lock for (name, _), lock in sorted(self._locks.items()) if group in (None, name)]

    def release_lock(
        self, group: str, place: QueuePlace, *, reason: str, expected_owner: str | None
    ) -> LockTransition | None:
        held = self._locks.get((group, (place.topic, place.queue)))
        if held is None:
            return None
        if expected_owner not in (None, held.owner):
            raise LockLost(f"the owner is {held.owner}")
        del self._locks[group, (place.topic, place.queue)]
        return LockTransition(
            number=self._next_fence(),
            at_ms=self._now_ms(),
            group=group,
            topic=place.topic,
            queue=place.queue,
            change=LockChange.FORCED,
            owner="",
            previous_owner=held.owner,
            epoch=held.epoch,
            reason=reason,
        )

    # --- fences --------------------------------------------------------------------------------

    def _spec(self, group: str) -> GroupSpec:
        return self._catalog().groups.get(group) or GroupSpec(name=group)

    def check_enabled(self, group: str) -> None:
        if not self._spec(group).enabled:
            raise NotPermitted(f"group {group} is disabled")

    def check(
        self,
        group: str,
        place: Place,
        *,
        epoch: int | None,
        client_id: str = "",
        generation: int | None = None,
    ) -> None:
        """Raise LockLost or StaleGeneration unless the caller may do what it asks."""
        self.check_enabled(group)
        held = self.lock(group, place)
        if epoch is None and client_id and self._spec(group).ordered:
            raise LockLost("an ordered group needs the lock")
        if epoch is not None and (held is None or held.epoch != epoch):
            raise LockLost(f"the lock of queue {place[1]} has another epoch")
        if generation is not None and self.owner(group, place) != client_id:
            raise StaleGeneration(f"queue {place[1]} is not assigned to {client_id}")

    def lock_refusals(self, since_ms: int) -> list[LockRefused]:
        minutes: dict[tuple[int, str, str, int, str, str], list[int]] = {}
        for (at_ms, *who), count in self._refused.items():
            minutes.setdefault((at_ms - at_ms % 60_000, *who), []).extend([at_ms] * count)
        return [
            LockRefused(
                minute_ms=minute_ms,
                group=group,
                topic=topic,
                queue=queue,
                owner=owner,
                client_id=client_id,
                count=len(times),
                last_ms=max(times),
            )
            for (minute_ms, group, topic, queue, owner, client_id), times in sorted(minutes.items())
            if minute_ms >= since_ms
        ]

    def history(self, after: int) -> GroupHistory:
        rows = tuple(row for row in self.rebalances() if row.number > after)
        return GroupHistory(transitions=(), rebalances=rows, last=self._fence)
