"""An engine of lists and dictionaries for the tests of a door: small, and obviously right."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from apps.engine.broker.retrypolicy import check_put_off
from apps.engine.codec.batch import stamp, starts_of
from apps.engine.codec.check import check_batch
from apps.engine.codec.ids import host_bytes
from apps.engine.codec.record import decode_record
from apps.engine.config import EngineConfig
from apps.engine.errors import NotPermitted, OffsetOutOfRange, UnknownQueue, UnknownTopic
from apps.engine.failuretypes import FailedMessage, ReturnResult
from apps.engine.grouptypes import (
    BeginOffset,
    HeartbeatRequest,
    HeartbeatResult,
    LockAnswer,
    QueuePlace,
)
from apps.engine.searchtypes import SearchRequest, SearchResult
from apps.engine.transactiontypes import Begun, Check
from apps.engine.types import (
    PERM_READ,
    PERM_WRITE,
    AckMode,
    Appended,
    CatalogSnapshot,
    ConsumeFrom,
    Lease,
    MessageBlock,
    OffsetCommit,
    PullRequest,
    PullResult,
    PullStatus,
    ReceiveRequest,
    ReceiveResult,
    RecordBatch,
    Settled,
    SettleResult,
    Special,
    TopicSpec,
    TopicType,
)
from tests.doors.fake_care import (
    CareVerbs,
    FakeDelays,
    FakeFailures,
    FakeRepeats,
    FakeTransactions,
    is_dead,
    retry_delay_ms,
)
from tests.doors.fake_groups import FakeGroups
from tests.doors.fake_lites import FakeSets, LiteVerbs, check_plain
from tests.doors.fake_readings import Readings
from tests.doors.fake_search import matches, searched

Place = tuple[str, int]
_HANDLE = re.compile(r"([0-9a-f]+)-fa4efa4e:([0-9]+)(?:-([0-9]+))?")


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = 1_700_000_000_123) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


@dataclass(slots=True)
class Handed:
    """Messages of one lease that are not settled yet."""

    group: str
    place: Place
    attempt: int
    due_ms: int
    offsets: set[int]
    settled: set[int] = field(default_factory=set)


class FakeEngine(CareVerbs, LiteVerbs, Readings):
    """EngineAPI without files."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._config = EngineConfig()
        self.catalog = CatalogSnapshot()
        self._queues: dict[Place, list[bytes]] = {}
        self._end = 0
        self._leases: dict[str, Handed] = {}
        self._settled: dict[tuple[str, Place], set[int]] = {}
        self._attempts: dict[tuple[str, Place, int], int] = {}
        self._not_before: dict[tuple[str, Place, int], int] = {}
        self._clients: dict[tuple[str, str], tuple[set[str], int, int]] = {}
        self._arrived = asyncio.Event()
        self._parked = 0
        self._repeats = FakeRepeats()
        self._delays = FakeDelays(clock.wall_ms, self._store_one)
        self._failures = FakeFailures(clock.wall_ms, self._store_one, self._delays)
        self._transactions = FakeTransactions(clock.wall_ms, self._store_one)
        self._groups = FakeGroups(clock.wall_ms, lambda: self.catalog)
        self._sets = FakeSets(clock.wall_ms)
        self._named: dict[tuple[str, str], ReceiveResult] = {}

    def publish_catalog(self, snapshot: CatalogSnapshot) -> None:
        self.catalog = snapshot

    def _topic(self, name: str, queue: int = 0) -> TopicSpec:
        topic = self.catalog.topics.get(name)
        if topic is None and name.startswith(("%RETRY%", "%DLQ%")):
            topic = TopicSpec(name=name, queue_count=1, perm=PERM_READ)
        topic = topic or self._lite_spec(name)
        if topic is None:
            raise UnknownTopic(f"there is no topic {name}")
        if not 0 <= queue < topic.queue_count:
            raise UnknownQueue(f"there is no queue {queue}")
        return topic

    async def append(self, batches: Sequence[RecordBatch], *, ack: AckMode) -> list[Appended]:
        for batch in batches:
            spec = self._topic(batch.topic, batch.queue)
            if not spec.perm & PERM_WRITE:
                raise NotPermitted("read only")
            # Checked even where the caller vouches for it: the door's own records must pass.
            hashes, special, _ = check_batch(
                batch.payload,
                batch.sizes,
                topic=batch.topic,
                queue=batch.queue,
                body_bytes_max=self._config.body_bytes_max,
                properties_bytes_max=self._config.properties_bytes_max,
            )
            if batch.tag_hashes is None:
                batch.special = special
            else:
                assert batch.tag_hashes.tolist() == hashes.tolist()
                assert batch.special == special
            check_plain(spec, special)
            if Special.DELAY in special:
                self._delays.check(batch)
        return [self._accept(batch) for batch in batches]

    def _accept(self, batch: RecordBatch) -> Appended:
        """Store a batch, have it wait, or tell where it was stored before."""
        new, repeats = self._repeats.split(batch)
        if not new:
            return self._repeats.answer(batch, repeats, self._clock.wall_ms())
        sizes = np.array([len(record) for record in new.values()], dtype=np.int32)
        payload = bytearray().join(new.values())
        part = RecordBatch(topic=batch.topic, queue=batch.queue, payload=payload, sizes=sizes)
        is_delayed = Special.DELAY in batch.special
        appended = self._delays.take(part) if is_delayed else self._store(part)
        self._repeats.keep(appended, list(new.values()))
        return replace(appended, repeats=repeats)

    def _store_one(self, topic: str, queue: int, record: bytes) -> int:
        sizes = np.array([len(record)], dtype=np.int32)
        batch = RecordBatch(topic=topic, queue=queue, payload=bytearray(record), sizes=sizes)
        return self._store(batch).queue_offset

    def _store(self, batch: RecordBatch) -> Appended:
        queue = self._queues.setdefault((batch.topic, batch.queue), [])
        appended = Appended(
            topic=batch.topic,
            queue=batch.queue,
            queue_offset=len(queue),
            count=len(batch.sizes),
            log_offset=self._end,
            store_time_ms=self._clock.wall_ms(),
        )
        starts = starts_of(batch.sizes)
        stamp(
            batch.payload,
            starts,
            queue_offset=len(queue),
            log_offset=self._end,
            store_time_ms=self._clock.wall_ms(),
            store_host=host_bytes("127.0.0.1", 8000),
        )
        for start, size in zip(starts.tolist(), batch.sizes.tolist(), strict=True):
            queue.append(bytes(batch.payload[start : start + size]))
        self._end += len(batch.payload)
        self._wake()
        return appended

    def _wake(self) -> None:
        self._arrived.set()
        self._arrived = asyncio.Event()

    async def pull(self, request: PullRequest) -> PullResult:
        self._delays.deliver(levels=False)
        self._topic(request.topic, request.queue)
        while True:
            self._groups.check(
                request.group,
                (request.topic, request.queue),
                epoch=request.epoch,
                client_id=request.client_id,
                generation=request.generation,
            )
            result = self._pull_once(request)
            if result.status is not PullStatus.NO_NEW_MSG or not await self._wait(request.wait_ms):
                return result

    async def search(self, request: SearchRequest) -> SearchResult:
        count = self._topic(request.topic, request.queue or 0).queue_count
        places = [(request.topic, number) for number in range(count)]
        return searched((r for place in places for r in self._queues.get(place, [])), request)

    def _pull_once(self, request: PullRequest) -> PullResult:
        queue = self._queues.get((request.topic, request.queue), [])
        found: list[bytes] = []
        if request.queue_offset > len(queue):
            status, next_offset = PullStatus.OFFSET_ILLEGAL, len(queue)
        elif request.queue_offset == len(queue):
            status, next_offset = PullStatus.NO_NEW_MSG, len(queue)
        else:
            next_offset = request.queue_offset
            while next_offset < len(queue) and len(found) < request.messages_max:
                record = queue[next_offset]
                key = (request.group, (request.topic, request.queue), next_offset)
                if key in self._failures.sent_back:
                    next_offset += 1
                    continue
                if matches(record, request.filter, request.filter_type):
                    if found and sum(map(len, found)) + len(record) > request.bytes_max:
                        break
                    found.append(record)
                next_offset += 1
            status = PullStatus.FOUND if found else PullStatus.NO_MATCHED_MSG
        return PullResult(
            status=status,
            block=_block(request.topic, request.queue, found),
            next_offset=next_offset,
            min_offset=0,
            max_offset=len(queue),
        )

    async def _wait(self, wait_ms: int) -> bool:
        if not wait_ms:
            return False
        self._parked += 1
        try:
            await asyncio.wait_for(self._arrived.wait(), wait_ms / 1000)
        except TimeoutError:
            return False
        finally:
            self._parked -= 1
        return True

    async def receive(self, request: ReceiveRequest) -> ReceiveResult:
        self._delays.deliver(levels=False)
        self._groups.check_enabled(request.group)
        for topic in request.topics:
            self._topic(topic)
        self._see(request)
        if request.client_id:
            now_ms = self._clock.wall_ms()
            client = self._clients.setdefault(
                (request.group, request.client_id), (set(), now_ms, now_ms)
            )
            self._clients[request.group, request.client_id] = (
                client[0] | set(request.topics),
                client[1],
                now_ms,
            )
        while True:
            result = self._again(request) or self._receive_once(self._of_sets(request))
            if result.leases:
                self._named[request.group, request.attempt_id] = result
            if result.leases or not await self._wait(request.wait_ms):
                return result

    def _receive_once(self, request: ReceiveRequest) -> ReceiveResult:
        leases: list[Lease] = []
        blocked: list[Place] = []
        left = request.messages_max
        retry = f"%RETRY%{request.group}"
        for topic in (*request.topics, *((retry,) if (retry, 0) in self._queues else ())):
            spec = self._topic(topic)
            numbers = range(spec.queue_count)
            falls = request.high_queue_first or spec.type is TopicType.PRIORITY
            for number in reversed(numbers) if falls else numbers:
                place = (topic, number)
                lock = self._groups.lock(request.group, place)
                is_anothers = lock is not None and lock.owner != request.client_id
                if is_anothers or (request.ordered and self._out(request.group, place)):
                    blocked.append(place)
                    continue
                for attempt, offsets in self._ready(request, place, left).items():
                    left -= len(offsets)
                    leases.append(self._hand_out(request, place, attempt, offsets))
        return ReceiveResult(leases=tuple(leases), blocked=tuple(blocked))

    def _out(self, group: str, place: Place) -> set[int]:
        now_ms = self._clock.monotonic_ms()
        return {
            offset
            for lease in self._leases.values()
            if (lease.group, lease.place) == (group, place) and lease.due_ms > now_ms
            for offset in lease.offsets
        }

    def _ready(self, request: ReceiveRequest, place: Place, left: int) -> dict[int, list[int]]:
        group = request.group
        settled = self._settled.setdefault((group, place), set())
        out = self._out(group, place)
        ready: dict[int, list[int]] = {}
        for offset, record in enumerate(self._queues.get(place, [])):
            key = (group, place, offset)
            if left <= 0 or offset in settled or offset in out:
                continue
            if self._not_before.get(key, 0) > self._clock.wall_ms():
                if request.is_lite:
                    break
                continue
            is_again = place[0].startswith("%RETRY%")
            if not is_again and not matches(record, request.filter, request.filter_type):
                settled.add(offset)
                continue
            left -= 1
            ready.setdefault(self._attempts.get(key, 0) + 1, []).append(offset)
        return ready

    def _hand_out(
        self, request: ReceiveRequest, place: Place, attempt: int, offsets: list[int]
    ) -> Lease:
        for offset in offsets:
            self._attempts[request.group, place, offset] = attempt
        due_ms = self._clock.wall_ms() + request.invisible_ms
        token = self._lease(Handed(request.group, place, attempt, due_ms, set(offsets)))
        queue = self._queues[place]
        return Lease(
            token=token,
            attempt=attempt,
            invisible_until_ms=due_ms,
            block=_block(*place, [queue[offset] for offset in offsets]),
        )

    def _lease(self, lease: Handed) -> str:
        token = f"{len(self._leases):x}-fa4efa4e"
        self._leases[token] = lease
        return token

    def _claim(self, group: str, handle: str) -> tuple[Settled, Handed | None, set[int]]:
        parts = _HANDLE.fullmatch(handle)
        lease = self._leases.get(handle.partition(":")[0])
        if parts is None or lease is None or lease.group != group:
            return Settled.INVALID, None, set()
        named = set(range(int(parts[2]), int(parts[3] or parts[2]) + 1))
        if named <= lease.settled:
            return Settled.OK, None, set()
        if not named & lease.offsets or lease.due_ms <= self._clock.monotonic_ms():
            return Settled.EXPIRED, None, set()
        return Settled.OK, lease, named & lease.offsets

    def _check_epoch(self, group: str, handles: Sequence[str], epoch: int | None) -> None:
        for handle in handles:
            lease = self._leases.get(handle.partition(":")[0])
            if lease is not None:
                self._groups.check(group, lease.place, epoch=epoch)

    async def ack(
        self, group: str, handles: Sequence[str], *, epoch: int | None = None
    ) -> list[SettleResult]:
        self._check_epoch(group, handles, epoch)
        results = []
        for handle in handles:
            outcome, lease, offsets = self._claim(group, handle)
            if lease is not None:
                lease.offsets -= offsets
                lease.settled |= offsets
                self._settled[group, lease.place] |= offsets
            results.append(SettleResult(outcome=outcome))
        return results

    async def nack(
        self,
        group: str,
        handles: Sequence[str],
        *,
        delay_ms: int | None = None,
        delay_level: int | None = None,
        reason: str = "",
        epoch: int | None = None,
        is_failure: bool = True,
    ) -> list[SettleResult]:
        self._check_epoch(group, handles, epoch)
        check_put_off(delay_level, delay_ms, is_failure=is_failure)
        results = []
        for handle in handles:
            outcome, lease, offsets = self._claim(group, handle)
            if lease is not None:
                lease.offsets -= offsets
                for offset in offsets:
                    if not is_failure:
                        key = (group, lease.place, offset)
                        self._attempts[key] = lease.attempt - 1
                        self._not_before[key] = self._clock.wall_ms() + (delay_ms or 0)
                        continue
                    record = self._queues[lease.place][offset]
                    failures = decode_record(record, 0).reconsume_times + lease.attempt - 1
                    if is_dead(failures, delay_level):
                        self._settled[group, lease.place].add(offset)
                        self._failures.give_up(group, record, failures + 1, reason, "")
                        continue
                    wait_ms = retry_delay_ms(failures, delay_level, delay_ms)
                    visible_ms = self._clock.wall_ms() + wait_ms
                    self._not_before[group, lease.place, offset] = visible_ms
            results.append(SettleResult(outcome=outcome))
        return results

    async def send_back(
        self,
        group: str,
        messages: Sequence[FailedMessage],
        *,
        client_id: str = "",
        delay_level: int | None = None,
        delay_ms: int | None = None,
        reason: str = "",
        generation: int | None = None,
    ) -> list[ReturnResult]:
        for message in messages:
            self._topic(message.topic, message.queue)
            self._groups.check(
                group,
                (message.topic, message.queue),
                epoch=message.epoch,
                client_id=client_id,
                generation=generation,
            )
        results = []
        for message in messages:
            queue = self._queues.get((message.topic, message.queue), [])
            is_there = message.queue_offset < len(queue)
            results.append(
                self._failures.send_back(
                    group,
                    message,
                    queue[message.queue_offset] if is_there else None,
                    client_id=client_id,
                    delay_level=delay_level,
                    delay_ms=delay_ms,
                    reason=reason,
                )
            )
        return results

    async def begin_transaction(
        self,
        batch: RecordBatch,
        *,
        producer_group: str,
        check_immunity_ms: int | None = None,
        ack: AckMode,
    ) -> Begun:
        if not self._topic(batch.topic, batch.queue).perm & PERM_WRITE:
            raise NotPermitted("read only")
        return self._transactions.begin(batch, producer_group, check_immunity_ms)

    async def receive_checks(
        self, producer_group: str, *, client_id: str, checks_max: int = 32, wait_ms: int = 0
    ) -> list[Check]:
        while True:
            found = self._transactions.checks(producer_group, checks_max)
            if found or not await self._wait(wait_ms):
                return found

    async def extend(
        self, group: str, handles: Sequence[str], *, invisible_ms: int, epoch: int | None = None
    ) -> list[SettleResult]:
        self._check_epoch(group, handles, epoch)
        results = []
        for handle in handles:
            outcome, lease, offsets = self._claim(group, handle)
            text = ""
            if lease is not None:
                lease.offsets -= offsets
                due_ms = self._clock.wall_ms() + invisible_ms
                token = self._lease(Handed(group, lease.place, lease.attempt, due_ms, offsets))
                text = f"{token}:{handle.partition(':')[2]}"
            results.append(SettleResult(outcome=outcome, handle=text))
        return results

    async def renew(
        self, group: str, tokens: Sequence[str], *, invisible_ms: int
    ) -> list[SettleResult]:
        results = []
        for token in tokens:
            lease = self._leases.get(token)
            is_out = lease is not None and lease.due_ms > self._clock.monotonic_ms()
            if lease is not None and is_out and lease.offsets:
                lease.due_ms = self._clock.wall_ms() + invisible_ms
            is_good = is_out and lease is not None and bool(lease.offsets)
            results.append(SettleResult(outcome=Settled.OK if is_good else Settled.EXPIRED))
        return results

    async def commit_offsets(
        self,
        group: str,
        commits: Sequence[OffsetCommit],
        *,
        client_id: str = "",
        generation: int | None = None,
    ) -> None:
        for commit in commits:
            self._topic(commit.topic, commit.queue)
            self._groups.check(
                group,
                (commit.topic, commit.queue),
                epoch=commit.epoch,
                client_id=client_id,
                generation=generation,
            )
            if commit.queue_offset > len(self._queues.get((commit.topic, commit.queue), [])):
                raise OffsetOutOfRange(f"{commit.queue_offset} is beyond the queue")
        for commit in commits:
            settled = set(range(commit.queue_offset))
            self._settled[group, (commit.topic, commit.queue)] = settled

    async def begin_offsets(
        self,
        group: str,
        places: Sequence[QueuePlace],
        *,
        consume_from: ConsumeFrom | None = None,
        consume_from_ms: int | None = None,
    ) -> list[BeginOffset]:
        found = []
        for place in places:
            self._topic(place.topic, place.queue)
            known = {(row.topic, row.queue): row.committed for row in self.group_progress(group)}
            begin = known.get((place.topic, place.queue))
            is_new = begin is None
            if begin is None:
                begin = 0
                if consume_from is ConsumeFrom.LAST:
                    begin = len(self._queues.get((place.topic, place.queue), []))
                elif consume_from_ms is not None:
                    begin = await self.offset_at(place.topic, place.queue, consume_from_ms)
                self._settled[group, (place.topic, place.queue)] = set(range(begin))
            found.append(
                BeginOffset(topic=place.topic, queue=place.queue, queue_offset=begin, is_new=is_new)
            )
        return found

    async def offset_at(self, topic: str, queue: int, time_ms: int) -> int:
        self._topic(topic, queue)
        records = self._queues.get((topic, queue), [])
        times = [decode_record(record, 0).store_time_ms for record in records]
        return sum(stored_ms < time_ms for stored_ms in times)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResult:
        for subscription in request.subscriptions:
            self._topic(subscription.topic)
        return await self._groups.heartbeat(request)

    async def leave(self, group: str, client_id: str) -> None:
        await self._groups.leave(group, client_id)

    async def acquire_locks(
        self, group: str, client_id: str, places: Sequence[QueuePlace]
    ) -> LockAnswer:
        for place in places:
            self._topic(place.topic, place.queue)
        return self._groups.acquire(group, client_id, places)

    async def release_locks(
        self,
        group: str,
        client_id: str,
        places: Sequence[QueuePlace],
        *,
        epochs: Mapping[QueuePlace, int] | None = None,
    ) -> LockAnswer:
        answer = self._groups.release(group, client_id, places, epochs=epochs)
        self._wake()
        return answer


def _block(topic: str, queue: int, records: list[bytes]) -> MessageBlock:
    sizes = np.array([len(record) for record in records], dtype=np.int32)
    return MessageBlock(topic=topic, queue=queue, payload=b"".join(records), sizes=sizes)
