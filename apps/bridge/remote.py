"""The broker's engine as other processes ask it. Knows HTTP, and no verb's inside.

One request a question, over connections that are kept. Any thread may ask, and a forked child opens
connections of its own.
"""

import http.client
import os
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

from django.conf import settings

from apps.bridge import control
from apps.bridge import engine as bridge
from apps.engine.caretypes import (
    CareRequest,
    CareResult,
    ResetRequest,
    ResetResult,
    WhatIf,
    WhatIfRequest,
)
from apps.engine.delaytypes import DelayedCopies, DelayedPage, DelayStatus, LevelsDelivered, Recall
from apps.engine.errors import EngineError, Refused, Unreachable
from apps.engine.failuretypes import GroupRetries, ResendResult
from apps.engine.grouptypes import (
    GroupHistory,
    LockRefused,
    LockTransition,
    MemberState,
    QueueBacklog,
    QueueLockState,
    QueuePlace,
    Rebalance,
)
from apps.engine.litetypes import LiteBacklog, LitePage, LiteSubscription, LiteTotal
from apps.engine.retentiontypes import Cleaned
from apps.engine.transactiontypes import (
    Ended,
    GivenUpPage,
    Outcome,
    PendingTransaction,
    SentAfterAll,
    TransactionStatus,
)
from apps.engine.types import (
    CatalogSnapshot,
    ClientSeen,
    EngineStatus,
    GroupProgress,
    QueueRange,
    TopicTotal,
)

_TIMEOUT_S = 5.0
# As many as a worker's threads ask at once; what is over is closed after its answer.
_KEPT_MAX = 4


def install() -> None:
    """Let `bridge.call` of this process ask the broker that the settings name; safe to repeat.

    Nothing is opened before the first question, so it may come before or after a fork.
    """
    if bridge.remote_or_none() is None:
        environment = settings.MQWEB
        token = control.token_of(settings.SECRET_KEY)
        bridge.install_remote(RemoteEngine(environment.own_host, environment.port, token=token))


class RemoteEngine:
    """EngineControl by HTTP to the broker's internal door.

    Every verb raises what the engine raises, Unreachable where nobody answers in time or as
    expected, and Refused where the broker does not take the token.
    """

    def __init__(self, host: str, port: int, *, token: str, timeout_s: float = _TIMEOUT_S) -> None:
        """Name the broker; `timeout_s` bounds each wait for a byte of the answer."""
        self._host = host
        self._port = port
        self._timeout_s = timeout_s
        self._headers = {
            # Whatever address is listened on, the broker answers to this name.
            "host": "localhost",
            "content-type": control.MEDIA_TYPE,
            control.TOKEN_HEADER: token,
        }
        # Without a lock: one that a thread held at a fork would stay locked in the child.
        self._kept: deque[tuple[int, http.client.HTTPConnection]] = deque()

    @property
    def catalog(self) -> CatalogSnapshot:
        """Return the snapshot the engine obeys."""
        found: CatalogSnapshot = self._ask("catalog", None)
        return found

    def publish_catalog(self, snapshot: CatalogSnapshot) -> None:
        """Have the engine obey `snapshot`; see EngineControl."""
        self._ask("publish_catalog", snapshot)

    def queue_ranges(self, topic: str) -> list[QueueRange]:
        """Return what each queue of the topic holds; see EngineControl."""
        found: list[QueueRange] = self._ask("queue_ranges", topic)
        return found

    def topic_ranges(self, topics: Collection[str] | None = None) -> dict[str, list[QueueRange]]:
        """Return what the queues of several topics hold; see EngineControl."""
        names = None if topics is None else list(topics)
        found: dict[str, list[QueueRange]] = self._ask("topic_ranges", names)
        return found

    def topic_totals(self) -> dict[str, TopicTotal]:
        """Return what the queues of each topic have in sum; see EngineControl."""
        found: dict[str, TopicTotal] = self._ask("topic_totals", None)
        return found

    def group_progress(self, group: str | None = None) -> list[GroupProgress]:
        """Return progress of one group or all; see EngineControl."""
        found: list[GroupProgress] = self._ask("group_progress", group)
        return found

    def clients(self, group: str | None = None) -> list[ClientSeen]:
        """Return the clients of one group or all; see EngineControl."""
        found: list[ClientSeen] = self._ask("clients", group)
        return found

    def forget_silent_clients(self, silent_ms: int) -> list[ClientSeen]:
        """Forget silent clients and return them; see EngineControl.

        None are returned where the answer to a first request was lost with its connection.
        """
        found: list[ClientSeen] = self._ask("forget_silent_clients", silent_ms)
        return found

    def members(self, group: str | None = None) -> list[MemberState]:
        """Return the members of one group or all; see EngineControl."""
        found: list[MemberState] = self._ask("members", group)
        return found

    def rebalances(self, group: str | None = None) -> list[Rebalance]:
        """Return the assignments in force; see EngineControl."""
        found: list[Rebalance] = self._ask("rebalances", group)
        return found

    def queue_locks(self, group: str | None = None) -> list[QueueLockState]:
        """Return the locks of one group or all; see EngineControl."""
        found: list[QueueLockState] = self._ask("queue_locks", group)
        return found

    def release_lock(
        self, group: str, place: QueuePlace, *, reason: str, expected_owner: str | None = None
    ) -> LockTransition | None:
        """Take a lock from whoever holds it; see EngineControl.

        After Unreachable it may have been taken or not.
        """
        asked = control.ReleaseLock(
            group=group, place=place, reason=reason, expected_owner=expected_owner
        )
        found: LockTransition | None = self._ask("release_lock", asked)
        return found

    def rebalance(self, *, reason: str, group: str | None = None) -> list[Rebalance]:
        """Share out the queues again; see EngineControl.

        Nothing is returned where the answer to a first request was lost with its connection.
        """
        found: list[Rebalance] = self._ask(
            "rebalance", control.ShareOut(reason=reason, group=group)
        )
        return found

    def history(self, after: int) -> GroupHistory:
        """Return the lines of history behind a number; see EngineControl."""
        found: GroupHistory = self._ask("history", after)
        return found

    def lock_refusals(self, since_ms: int = 0) -> list[LockRefused]:
        """Return how often locks were refused in each minute; see EngineControl."""
        found: list[LockRefused] = self._ask("lock_refusals", since_ms)
        return found

    def backlog(self, group: str | None = None) -> list[QueueBacklog]:
        """Return what one group or all have left to do; see EngineControl."""
        found: list[QueueBacklog] = self._ask("backlog", group)
        return found

    def status(self) -> EngineStatus:
        """Return one reading of the counters."""
        found: EngineStatus = self._ask("status", None)
        return found

    def own_ranges(self, prefix: str) -> dict[str, list[QueueRange]]:
        """Return what the engine's own topics hold; see EngineControl."""
        found: dict[str, list[QueueRange]] = self._ask("own_ranges", prefix)
        return found

    def lite_topics(self, topic: str, *, after: str = "", count: int = 100) -> LitePage:
        """Return lite topics of a parent by name; see EngineControl."""
        asked = control.ListLites(topic=topic, after=after, count=count)
        found: LitePage = self._ask("lite_topics", asked)
        return found

    def lite_subscriptions(self, group: str) -> tuple[LiteSubscription, ...]:
        """Return the clients of a group that have lite topics; see EngineControl."""
        found: tuple[LiteSubscription, ...] = self._ask("lite_subscriptions", group)
        return found

    def lite_totals(self) -> dict[str, LiteTotal]:
        """Return what all lite topics of each parent have in sum; see EngineControl."""
        found: dict[str, LiteTotal] = self._ask("lite_totals", None)
        return found

    def lite_backlog(self, group: str | None = None) -> list[LiteBacklog]:
        """Return what one group or all have left to do in lite topics; see EngineControl."""
        found: list[LiteBacklog] = self._ask("lite_backlog", group)
        return found

    def deliver_levels(self, messages_max: int = 1_000) -> LevelsDelivered:
        """Deliver what is due in the delay levels; see EngineControl."""
        found: LevelsDelivered = self._ask("deliver_levels", messages_max)
        return found

    def delay_levels(self) -> LevelsDelivered:
        """Return where each level is; see EngineControl."""
        found: LevelsDelivered = self._ask("delay_levels", None)
        return found

    def delayed(
        self,
        *,
        level: int | None = None,
        topic: str | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        cursor: str | None = None,
        messages_max: int = 100,
    ) -> DelayedPage:
        """List delayed messages by due time; see EngineControl."""
        asked = control.ListDelayed(
            level=level,
            topic=topic,
            from_ms=from_ms,
            to_ms=to_ms,
            cursor=cursor,
            messages_max=messages_max,
        )
        found: DelayedPage = self._ask("delayed", asked)
        return found

    def delayed_copies(self, message_id: str) -> DelayedCopies:
        """Find what waits of a message in delay levels; see EngineControl."""
        found: DelayedCopies = self._ask("delayed_copies", message_id)
        return found

    def delay_status(self) -> DelayStatus:
        """Return the counters of messages with a delay of their own."""
        found: DelayStatus = self._ask("delay_status", None)
        return found

    def recall(self, handle: str) -> Recall:
        """Cancel a delayed message; see EngineControl."""
        found: Recall = self._ask("recall", handle)
        return found

    def deliver_now(self, handle: str) -> Recall:
        """Deliver a delayed message before its time; see EngineControl."""
        found: Recall = self._ask("deliver_now", handle)
        return found

    def resend(
        self, group: str, queue_offsets: Sequence[int], *, topic: str | None = None, by: str = ""
    ) -> list[ResendResult]:
        """Send dead letters of a group again; see EngineControl."""
        asked = control.ResendLetters(
            group=group, queue_offsets=list(queue_offsets), topic=topic, by=by
        )
        found: list[ResendResult] = self._ask("resend", asked)
        return found

    def transactions(
        self, *, producer_group: str | None = None, after: int = -1, messages_max: int = 100
    ) -> list[PendingTransaction]:
        """List undecided transactions; see EngineControl."""
        asked = control.ListTransactions(
            producer_group=producer_group, after=after, messages_max=messages_max
        )
        found: list[PendingTransaction] = self._ask("transactions", asked)
        return found

    def transaction_status(self) -> TransactionStatus:
        """Return the counters of transactions."""
        found: TransactionStatus = self._ask("transaction_status", None)
        return found

    def end_transaction(self, transaction_id: str, outcome: Outcome, *, by: str = "") -> Ended:
        """Commit or roll back; see EngineControl."""
        asked = control.EndTransaction(transaction_id=transaction_id, outcome=outcome, by=by)
        found: Ended = self._ask("end_transaction", asked)
        return found

    def check_now(self, transaction_id: str) -> PendingTransaction | None:
        """Have the producers asked at once; see EngineControl."""
        found: PendingTransaction | None = self._ask("check_now", transaction_id)
        return found

    def give_up_transactions(self, messages_max: int = 100) -> int:
        """Give up what was checked often enough or is too old; see EngineControl."""
        found: int = self._ask("give_up_transactions", messages_max)
        return found

    def group_retries(self, group: str) -> GroupRetries:
        """Count by failures what is to come again; see EngineControl."""
        found: GroupRetries = self._ask("group_retries", group)
        return found

    def given_up(self, *, before: int | None = None, messages_max: int = 100) -> GivenUpPage:
        """List given-up messages; see EngineControl."""
        asked = control.ListGivenUp(before=before, messages_max=messages_max)
        found: GivenUpPage = self._ask("given_up", asked)
        return found

    def send_given_up(
        self, given_up_offset: int, *, transaction_id: str, by: str = ""
    ) -> SentAfterAll:
        """Send a given-up message where it was for; see EngineControl."""
        asked = control.SendGivenUp(
            given_up_offset=given_up_offset, transaction_id=transaction_id, by=by
        )
        found: SentAfterAll = self._ask("send_given_up", asked)
        return found

    def attend(self, request: CareRequest) -> CareResult:
        """Suspend or resume a queue, skip its head or park it; see EngineControl."""
        found: CareResult = self._ask("attend", request)
        return found

    def reset_offsets(self, request: ResetRequest) -> ResetResult:
        """Have a group go on elsewhere; see EngineControl."""
        found: ResetResult = self._ask("reset_offsets", request)
        return found

    def offsets_at(self, places: Sequence[QueuePlace], time_ms: int) -> list[int]:
        """Return the first message of each queue from a time on; see EngineControl."""
        asked = control.OffsetsAt(places=list(places), time_ms=time_ms)
        found: list[int] = self._ask("offsets_at", asked)
        return found

    def what_if(self, request: WhatIfRequest) -> WhatIf:
        """Return how a group's queues would be shared out; see EngineControl."""
        found: WhatIf = self._ask("what_if", request)
        return found

    def clean_now(self) -> Cleaned:
        """Delete what is too old, at any hour; see EngineControl."""
        found: Cleaned = self._ask("clean_now", None)
        return found

    def close(self) -> None:
        """Close the kept connections; a later question opens new ones."""
        while self._kept:
            self._kept.pop()[1].close()

    def _ask(self, name: str, argument: object) -> Any:  # Each verb has an answer of its own.
        verb = control.VERBS[name]
        status, body = self._answer(
            control.PREFIX + name, control.packed(argument), is_repeatable=verb.is_repeatable
        )
        if status == http.client.FORBIDDEN:
            raise Refused("the broker does not take our token: its secret key is another one")
        try:
            if status == http.client.OK:
                return control.unpacked(body, verb.answer)
            error: EngineError = control.error_of(control.unpacked(body, control.Refusal))
        except ValueError as error_of_shape:
            raise Unreachable(
                f"{self._host}:{self._port} answers, but not as our broker: status {status}"
            ) from error_of_shape
        raise error

    def _answer(self, target: str, body: bytes, *, is_repeatable: bool) -> tuple[int, bytes]:
        """Return status and body; what a kept connection cannot carry goes over a new one.

        That is a repetition, for nobody knows what became of the first: what must not be repeated
        begins with a new connection.
        """
        while is_repeatable and (kept := self._take_kept()) is not None:
            try:
                return self._exchange(kept, target, body)
            except TimeoutError as error:
                raise self._unreachable(error) from error
            except (OSError, http.client.HTTPException):
                # The broker may have closed it meanwhile.
                continue
        fresh = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            return self._exchange(fresh, target, body)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _exchange(
        self, connection: http.client.HTTPConnection, target: str, body: bytes
    ) -> tuple[int, bytes]:
        is_kept = False
        try:
            connection.request("POST", target, body, self._headers)
            with connection.getresponse() as response:
                answer = response.status, response.read()
            is_kept = connection.sock is not None and len(self._kept) < _KEPT_MAX
        finally:
            if not is_kept:
                connection.close()
        if is_kept:
            self._kept.append((os.getpid(), connection))
        return answer

    def _take_kept(self) -> http.client.HTTPConnection | None:
        while self._kept:
            owner, connection = self._kept.pop()
            if owner == os.getpid():
                return connection
            # The parent's: closing our copy of the descriptor leaves its connection alone.
            connection.close()
        return None

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(f"the broker at {self._host}:{self._port} does not answer: {error!r}")
