"""Whether a pull, a commit or a settlement is the caller's to make. Knows locks, access, members.

The one place that decides it; each refusal changes nothing. Three fences, each only where asked for
or where the group demands it:

- the *lock*: an `epoch` that is given, or a group that is ordered, needs the queue's lock, whose
  lease must still run;
- the *assignment*: a `generation` that is given needs the queue to be the client's by now. The
  number itself need not be the newest: a rebalance that leaves a queue where it is disturbs nobody;
- the *access lock*: the new owner of a queue waits for the old one, where the group says so.

An operator who skips a message or resets offsets leaves a mark on the queue. What a member says
under a generation from before it is refused, and for a while what it says under none. A queue that
is suspended answers pulls as one that has nothing new.

A member that is broadcast to shares its queues with nobody, and none of the three concerns it. A
disabled group reads nothing; what it was delivered before it may still settle and commit, or all of
it would be delivered again.
"""

from collections.abc import Callable, Sequence

from apps.engine.broker.accesslock import Access, AccessLocks
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.handles import Handles
from apps.engine.broker.members import Members
from apps.engine.broker.names import check_client_id, check_group_name
from apps.engine.broker.queuelocks import QueueLocks
from apps.engine.broker.selection import empty_block
from apps.engine.broker.state import ConsumerState
from apps.engine.clock import Clock
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.errors import InvalidArgument, LockLost, StaleGeneration
from apps.engine.types import (
    GroupSpec,
    MessageModel,
    OffsetCommit,
    PullRequest,
    PullResult,
    PullStatus,
)

# For how long a member that was told of a mark may still have something to say about before.
_LATE_MS = 300_000


class Fencing:
    """The fences of one store."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        state: ConsumerState,
        handles: Handles,
        locks: QueueLocks,
        access: AccessLocks,
        members: Members,
        clock: Clock,
        owner_of: Callable[[str, str, int], str | None],
    ) -> None:
        """Bind to what is known; `owner_of` is the assignment, as for QueueLocks."""
        self._catalog = catalog
        self._state = state
        self._handles = handles
        self._locks = locks
        self._access = access
        self._members = members
        self._clock = clock
        self._owner_of = owner_of

    def pull(
        self, request: PullRequest, queue: ConsumeQueue, read: Callable[[], PullResult]
    ) -> PullResult:
        """Answer a pull with `read` if it is the caller's to make.

        Where it waits for access, the answer is NO_NEW_MSG with the offset it asked for; where it
        was just given access, NO_NEW_MSG with the committed offset, to go on from there. Raises
        InvalidName, InvalidArgument, NotPermitted, LockLost or StaleGeneration.
        """
        if not request.group:
            if request.epoch is not None or request.generation is not None:
                raise InvalidArgument("an epoch and a generation are those of a group")
            return read()
        check_group_name(request.group)
        check_client_id(request.client_id)
        _check_pair(request.client_id, request.generation)
        spec = self._catalog.usable_group(request.group)
        if self._is_broadcast(request.group, request.client_id):
            return read()
        next_offset = self._before_pull(request, spec)
        if next_offset is None and self.is_suspended(request):
            next_offset = request.queue_offset
        if next_offset is not None:
            return _nothing_new(queue, next_offset)
        result = read()
        if result.status is PullStatus.FOUND:
            self._access.pulled(
                request.group,
                request.topic,
                request.queue,
                request.client_id,
                result.next_offset,
            )
        return result

    def may_wait(self, request: PullRequest) -> bool:
        """Say whether a parked pull may stay so; it may not where it may be about access."""
        if not request.group:
            return True
        spec = self._catalog.group(request.group)
        if self._is_broadcast(request.group, request.client_id):
            return spec.enabled
        try:
            self._check_rights(request, spec)
        except (LockLost, StaleGeneration):
            return False
        return spec.enabled and spec.access_lock_ms is None

    def is_suspended(self, request: PullRequest) -> bool:
        """Say whether the queue gives the group nothing, by an operator's word."""
        key = (request.group, request.topic, request.queue)
        return key in self._state.operators.suspensions and not self._is_broadcast(
            request.group, request.client_id
        )

    def check_commit(
        self,
        group: str,
        commits: Sequence[OffsetCommit],
        *,
        client_id: str,
        generation: int | None,
    ) -> None:
        """Raise LockLost or StaleGeneration unless every commit is the caller's to make.

        Without a client id it is an operator's, whom only an epoch that is given can hold back.
        """
        check_client_id(client_id)
        _check_pair(client_id, generation)
        if self._is_broadcast(group, client_id):
            return
        is_ordered = self._catalog.group(group).ordered and client_id != ""
        for commit in commits:
            where = (group, commit.topic, commit.queue)
            if is_ordered or commit.epoch is not None:
                self._locks.check(*where, client_id=client_id, epoch=commit.epoch)
            if generation is not None and not self._is_owner(*where, client_id):
                self._check_old_owner(*where, client_id)
            if client_id and commit.epoch is None:
                self._check_mark(*where, client_id, generation)

    def check_settle(self, group: str, handles: Sequence[str], *, epoch: int | None) -> None:
        """Raise LockLost unless the handles' queues have locks with that epoch; None asks nothing.

        A handle whose messages are settled or expired changes nothing, and proves nothing: a
        settlement that is sent twice is answered as the first time.
        """
        if epoch is None:
            return
        check_group_name(group)
        places = set()
        for text in handles:
            handle = self._handles.parse(group, text)
            entry = None if handle is None else self._state.leases.get(handle.lease)
            if handle is not None and entry is not None and entry.epoch == handle.epoch:
                places.add((entry.progress.topic, entry.progress.queue))
        for topic, queue in sorted(places):
            self._locks.check(group, topic, queue, client_id="", epoch=epoch)

    def _before_pull(self, request: PullRequest, spec: GroupSpec) -> int | None:
        """Return the offset to answer with instead of messages; None when the pull may read."""
        where = (request.group, request.topic, request.queue)
        self._check_rights(request, spec)
        if not request.client_id:
            return None
        is_owner = self._is_owner(*where, request.client_id)
        if request.generation is None and self._owner_of(*where) is None:
            is_owner = True
        access = self._access.enter(
            *where, request.client_id, is_owner=is_owner, hold_ms=spec.access_lock_ms
        )
        if access is Access.GRANTED:
            return None
        if access is Access.WAITS:
            return request.queue_offset
        progress = self._state.progress.get(where)
        if progress is None or progress.floor == request.queue_offset:
            return None
        return progress.floor

    def _check_rights(self, request: PullRequest, spec: GroupSpec) -> None:
        """Raise LockLost or StaleGeneration unless the caller has the lock and the queue."""
        where = (request.group, request.topic, request.queue)
        if spec.ordered or request.epoch is not None:
            self._locks.check(*where, client_id=request.client_id, epoch=request.epoch)
        if request.generation is not None and not self._is_owner(*where, request.client_id):
            self._check_old_owner(*where, request.client_id)
        if request.generation is not None:
            self._check_mark(*where, request.client_id, request.generation)

    def _check_mark(
        self, group: str, topic: str, queue: int, client_id: str, generation: int | None
    ) -> None:
        """Raise StaleGeneration for what a member has to say about before an operator's mark.

        Without a generation it may be about either; the lock's epoch tells where there is one.
        """
        mark = self._state.operators.mark(group, topic, queue)
        if mark is None:
            return
        if generation is None:
            is_late = (
                self._members.find(group, client_id) is not None
                and self._clock.wall_ms() - mark.at_ms < _LATE_MS
            )
        else:
            is_late = generation <= mark.fence
        if is_late:
            raise StaleGeneration(f"an operator has set {topic}/{queue}: begin anew there")

    def _is_owner(self, group: str, topic: str, queue: int, client_id: str) -> bool:
        return client_id != "" and self._owner_of(group, topic, queue) == client_id

    def _check_old_owner(self, group: str, topic: str, queue: int, client_id: str) -> None:
        """Raise StaleGeneration unless the group locks access and the client still has it."""
        is_locking = self._catalog.group(group).access_lock_ms is not None
        if not (is_locking and self._access.has_access(group, topic, queue, client_id)):
            raise StaleGeneration(f"queue {topic}/{queue} is not assigned to {client_id!r} now")

    def _is_broadcast(self, group: str, client_id: str) -> bool:
        member = self._members.find(group, client_id)
        return member is not None and member.model is MessageModel.BROADCASTING


def _check_pair(client_id: str, generation: int | None) -> None:
    if generation is not None and not client_id:
        raise InvalidArgument("a generation is that of a client_id")


def _nothing_new(queue: ConsumeQueue, next_offset: int) -> PullResult:
    return PullResult(
        status=PullStatus.NO_NEW_MSG,
        block=empty_block(queue),
        next_offset=next_offset,
        min_offset=queue.min_offset,
        max_offset=queue.visible,
    )
