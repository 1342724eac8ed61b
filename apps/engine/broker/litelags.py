"""How far groups are behind in all lite topics of a parent together, kept as sums.

Knows lite topics, groups' progress in them, and who is subscribed; not who asks. A lite topic that
something happened to is counted again, at once and alone, so an answer costs the same however many
there are. A group counts with all lite topics of a parent as soon as it has read one or a client of
it is subscribed to one. Where it has not read a lite topic it is as far as it would begin there: at
its first message where a client is subscribed, else as was decided about the group.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice

from apps.engine.broker.catalog import Catalog
from apps.engine.broker.litecounts import LiteCounts
from apps.engine.broker.litesets import LiteSets
from apps.engine.broker.litetopics import LiteTopics
from apps.engine.broker.progress import QueueProgress
from apps.engine.broker.state import ConsumerState
from apps.engine.broker.timesearch import StoreTimes
from apps.engine.clock import Clock
from apps.engine.codec.layout import LITE_PREFIX
from apps.engine.codec.litenames import is_lite
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import QueueDamaged, StoreDamaged
from apps.engine.litetypes import LiteBacklog
from apps.engine.types import ConsumeFrom

# Of a group that is new to a parent so many lite topics are counted in one go: less than a
# millisecond, unless times have to be looked up.
_COUNTED_AT_ONCE = 256
_LOOKED_UP_AT_ONCE = 16
# Positions in the log that are none any more are thrown away when they are most of all.
_STALE_MIN = 64
_NOWHERE = -1
_DAMAGED = (QueueDamaged, StoreDamaged)


@dataclass(slots=True, eq=False)
class _Behind:
    """A lite topic that a group has yet to do something in.

    `lag` messages from `first` on, which lies at `log_offset`; of them `out` are handed out, and
    `ready` are with nobody.
    """

    lag: int
    first: int
    log_offset: int
    out: int
    ready: int


class _Account:
    """What one group has left to do in the lite topics of one parent."""

    __slots__ = (
        "begin",
        "begin_ms",
        "begins",
        "behind",
        "group",
        "headless",
        "heads",
        "lag",
        "out",
        "parent",
        "reads",
        "ready",
        "uncounted",
    )  # fmt: skip

    def __init__(self, group: str, parent: str) -> None:
        """Begin with nothing."""
        self.group = group
        self.parent = parent
        self.begin = ConsumeFrom.FIRST
        self.begin_ms = 0
        # In how many lite topics the group is anywhere.
        self.reads = 0
        self.behind: dict[str, _Behind] = {}
        self.lag = self.out = self.ready = 0
        # Where the first messages lie, the oldest first; also what is no first message any more.
        self.heads: list[tuple[int, str]] = []
        # Of some the disk would have to be waited for.
        self.headless: dict[str, None] = {}
        # Where a group that begins at a time would begin in what it has not read.
        self.begins: dict[str, int] = {}
        self.uncounted: dict[str, None] = {}

    def put(self, topic: str, found: _Behind | None) -> None:
        """Count a lite topic as it is now, None for one with nothing left to do."""
        before = self.behind.pop(topic, None)
        if before is not None:
            self.lag -= before.lag
            self.out -= before.out
            self.ready -= before.ready
        self.headless.pop(topic, None)
        if found is None:
            return
        self.behind[topic] = found
        self.lag += found.lag
        self.out += found.out
        self.ready += found.ready
        if found.log_offset == _NOWHERE:
            self.headless[topic] = None
        elif before is None or before.log_offset != found.log_offset:
            heappush(self.heads, (found.log_offset, topic))
            if len(self.heads) > 2 * len(self.behind) + _STALE_MIN:
                self.heads = [
                    (one.log_offset, name)
                    for name, one in self.behind.items()
                    if one.log_offset != _NOWHERE
                ]
                heapify(self.heads)

    def oldest(self) -> str | None:
        """Return the lite topic that has the oldest message left to do; None without one."""
        while self.heads:
            log_offset, topic = self.heads[0]
            found = self.behind.get(topic)
            if found is not None and found.log_offset == log_offset:
                return topic
            heappop(self.heads)
        return None


class LiteLags:
    """Sums by parent and group."""

    def __init__(
        self,
        topics: LiteTopics,
        sets: LiteSets,
        *,
        queues: QueueSet,
        catalog: Catalog,
        state: ConsumerState,
        times: StoreTimes,
        clock: Clock,
    ) -> None:
        """Bind to a store, count what is there, and hear of what changes it."""
        self._topics = topics
        self._sets = sets
        self._queues = queues
        self._catalog = catalog
        self._state = state
        self._times = times
        self._clock = clock
        # By prefix and parent, so that finding it takes no parsing; in it by group.
        self._accounts: dict[str, dict[str, _Account]] = {}
        self.counts = LiteCounts(topics, queues)
        state.lite_listener = self
        sets.on_change = self._subscribed
        for progress in state.progress.values():
            if is_lite(progress.topic):
                self._account(progress.group, progress.topic).reads += 1
        for account in self._all():
            self._count_some(account, len(account.uncounted))

    # --- what happens --------------------------------------------------------------------------

    def shown(self, topic: str, before: int) -> None:
        """Note that readers may see messages of a lite topic, the first at a queue offset."""
        queue = self._queues.find(topic, 0)
        if queue is not None:
            self.counts.shown(_parent_key(topic), queue, before)
        self.changed(topic)

    def hidden(self, topic: str, count: int) -> None:
        """Note that readers see so many messages of a lite topic no more."""
        self.counts.hidden(_parent_key(topic), count)
        self.changed(topic)

    def changed(self, topic: str) -> None:
        """Count a lite topic again, for all groups."""
        for account in self._accounts.get(_parent_key(topic), {}).values():
            self._count(account, topic)

    def begun(self, progress: QueueProgress) -> None:
        """Hear that a group is somewhere in a lite topic."""
        self._account(progress.group, progress.topic).reads += 1

    def moved(self, progress: QueueProgress) -> None:
        """Hear that it may be elsewhere, or has other messages out."""
        account = self._accounts.get(_parent_key(progress.topic), {}).get(progress.group)
        if account is not None:
            self._count(account, progress.topic)

    def ended(self, progress: QueueProgress) -> None:
        """Hear that it is nowhere in it any more."""
        account = self._account(progress.group, progress.topic)
        account.reads -= 1
        account.begins.pop(progress.topic, None)
        self._count(account, progress.topic)

    def _subscribed(self, group: str, topic: str) -> None:
        """Hear that a client was subscribed to a lite topic, or is no more."""
        account = self._account(group, topic)
        if account.begin is not ConsumeFrom.FIRST:
            self._count(account, topic)

    def groups_changed(self, groups: Iterable[str]) -> None:
        """Count anew for groups that begin elsewhere from here on."""
        changed = set(groups)
        for account in self._all():
            if account.group in changed:
                begin = (account.begin, account.begin_ms)
                self._decide(account)
                if begin != (account.begin, account.begin_ms):
                    account.begins.clear()
                    account.uncounted = dict.fromkeys(self._topics.of_parent(account.parent))

    # --- answers -------------------------------------------------------------------------------

    def rows(self, group: str | None = None) -> list[LiteBacklog]:
        """Return what one group or all have left to do in lite topics, by group and parent."""
        self._sets.forget_silent()
        parents = self._catalog.snapshot.topics
        found = []
        for account in self._all():
            if group not in (None, account.group):
                continue
            if not account.reads and not self._sets.reads(account.group, account.parent):
                del self._accounts[LITE_PREFIX + account.parent][account.group]
            elif account.parent in parents:
                found.append(self._row(account))
        return sorted(found, key=lambda row: (row.group, row.topic))

    def complete(self, *, wait: bool) -> bool:
        """Count some of what is not counted yet; return whether there is more.

        Raises ColdRead when `wait` is false and the disk would have to be waited for.
        """
        for account in self._all():
            uncounted = list(islice(account.uncounted, _COUNTED_AT_ONCE))
            headless = list(islice(account.headless, _COUNTED_AT_ONCE))
            for topic in uncounted:
                self._put(account, topic, wait=wait)
            for topic in headless:
                self._find_head(account, topic, wait=wait)
            if uncounted:
                return True
        return False

    def _row(self, account: _Account) -> LiteBacklog:
        self._count_some(account, _COUNTED_AT_ONCE)
        is_known = not account.uncounted
        return LiteBacklog(
            group=account.group,
            topic=account.parent,
            arrived=self.counts.arrived(LITE_PREFIX + account.parent),
            lag=account.lag if is_known else None,
            topics_behind=len(account.behind) if is_known else None,
            in_flight=account.out if is_known else None,
            ready=account.ready if is_known else None,
            oldest_age_ms=self._oldest_age_ms(account) if is_known else None,
        )

    def _oldest_age_ms(self, account: _Account) -> int | None:
        for topic in list(islice(account.headless, _LOOKED_UP_AT_ONCE)):
            self._count(account, topic)
        oldest = account.oldest()
        queue = None if oldest is None else self._queues.find(oldest, 0)
        if oldest is None or queue is None or account.headless:
            return None
        try:
            stored_ms = self._times.of(queue, account.behind[oldest].first, wait=False)
        except (ColdRead, *_DAMAGED):
            # A later answer has it, once somebody has read it.
            return None
        # The wall clock may have been set back since the message was stored.
        return max(0, self._clock.wall_ms() - stored_ms)

    # --- counting ------------------------------------------------------------------------------

    def _all(self) -> Iterator[_Account]:
        return iter([one for groups in self._accounts.values() for one in groups.values()])

    def _account(self, group: str, topic: str) -> _Account:
        """Return the account of a group with the parent of a lite topic, made where there is none.

        A new one is not counted yet.
        """
        key = _parent_key(topic)
        groups = self._accounts.get(key)
        if groups is None:
            groups = self._accounts[key] = {}
        account = groups.get(group)
        if account is None:
            account = groups[group] = _Account(group, key.removeprefix(LITE_PREFIX))
            self._decide(account)
            account.uncounted = dict.fromkeys(self._topics.of_parent(account.parent))
        return account

    def _decide(self, account: _Account) -> None:
        spec = self._catalog.group(account.group)
        account.begin, account.begin_ms = spec.consume_from, spec.consume_from_ms or 0

    def _count_some(self, account: _Account, most: int) -> None:
        """Count the first of what is not counted."""
        if account.begin is ConsumeFrom.TIMESTAMP:
            most = min(most, _LOOKED_UP_AT_ONCE)
        for topic in list(islice(account.uncounted, most)):
            self._count(account, topic)

    def _count(self, account: _Account, topic: str) -> None:
        """Count a lite topic; where the disk would have to be waited for it is left for later."""
        try:
            self._put(account, topic, wait=False)
        except ColdRead:
            account.uncounted[topic] = None

    def _find_head(self, account: _Account, topic: str, *, wait: bool) -> None:
        """Count a lite topic again of which nobody knows where its first message lies."""
        queue, found = self._queues.find(topic, 0), account.behind.get(topic)
        with suppress(QueueDamaged):
            if queue is not None and found is not None:
                queue.log_offset(found.first, wait=wait)
        self._count(account, topic)

    def _put(self, account: _Account, topic: str, *, wait: bool) -> None:
        """Count a lite topic. Raises ColdRead."""
        account.put(topic, self._found(account, topic, wait=wait))
        account.uncounted.pop(topic, None)

    def _found(self, account: _Account, topic: str, *, wait: bool) -> _Behind | None:
        queue = self._queues.find(topic, 0)
        if queue is None:
            account.begins.pop(topic, None)
            return None
        progress = self._state.progress.get((account.group, topic, 0))
        first = self._begin(account, queue, wait=wait) if progress is None else progress.floor
        first = max(first, queue.min_offset)
        lag = queue.visible - first
        if lag <= 0:
            return None
        out, ready = 0, lag
        if progress is not None:
            ready = queue.visible - max(progress.cursor, queue.min_offset)
            for entry in map(self._state.leases.get, progress.leases):
                if entry is not None and entry.is_out:
                    out += len(entry.offsets)
                elif entry is not None:
                    ready += len(entry.offsets)
        before = account.behind.get(topic)
        if before is not None and before.first == first and before.log_offset != _NOWHERE:
            log_offset = before.log_offset
        else:
            log_offset = _log_offset(queue, first, wait=wait)
        return _Behind(lag, first, log_offset, out, ready)

    def _begin(self, account: _Account, queue: ConsumeQueue, *, wait: bool) -> int:
        """Return where a group begins in a lite topic that it has not read."""
        if account.begin is ConsumeFrom.FIRST or self._sets.has(account.group, queue.topic):
            # Where a client that subscribes begins elsewhere, that is progress from then on.
            return queue.min_offset
        if account.begin is ConsumeFrom.LAST:
            return queue.visible
        begin = account.begins.get(queue.topic)
        if begin is None:
            try:
                begin = self._times.first_since(queue, account.begin_ms, wait=wait)
            except _DAMAGED:
                # Nobody can tell: all of it may be for the group.
                begin = queue.min_offset
            if begin < queue.visible:
                # Behind the end may be older messages, which are not shown yet.
                account.begins[queue.topic] = begin
        return begin


def _log_offset(queue: ConsumeQueue, queue_offset: int, *, wait: bool) -> int:
    with suppress(ColdRead, QueueDamaged):
        return queue.log_offset(queue_offset, wait=wait)
    return _NOWHERE


def _parent_key(topic: str) -> str:
    return topic.rpartition("|")[0]
