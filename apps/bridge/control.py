"""How control verbs travel between processes: their names, values, refusals and token.

Both ends import it: the engine's process answers by it, every other one asks by it. Knows no
socket, no door and no setting.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from apps.engine.api import EngineControl, Later
from apps.engine.caretypes import (
    CareRequest,
    CareResult,
    ResetRequest,
    ResetResult,
    WhatIf,
    WhatIfRequest,
)
from apps.engine.delaytypes import DelayedCopies, DelayedPage, DelayStatus, LevelsDelivered, Recall
from apps.engine.errors import CannotOpen, EngineError
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

PREFIX = "/internal/engine/"
MEDIA_TYPE = "application/msgpack"
TOKEN_HEADER = "x-mqweb-token"  # noqa: S105
# A catalog of half a million topics; nobody without the token gets a body read.
BODY_BYTES_MAX = 32 * 1024 * 1024

_TOKEN_LABEL = b"mqweb control verbs, version 1"

_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: the types of its single argument and of its answer, and how an engine is asked.

    What `ask` returns is the answer, or an awaitable of it.

    One that is not repeatable must not be carried out twice for one question.
    """

    argument: Any  # A type, as msgspec takes them: a class, a union or a generic alias.
    answer: Any
    ask: Callable[[EngineControl, Any], object]
    is_repeatable: bool = True


class ReleaseLock(msgspec.Struct, frozen=True, kw_only=True):
    """What `release_lock` is asked."""

    group: str
    place: QueuePlace
    reason: str
    expected_owner: str | None = None

    def ask(self, engine: EngineControl) -> LockTransition | None:
        """Ask an engine."""
        return engine.release_lock(
            self.group, self.place, reason=self.reason, expected_owner=self.expected_owner
        )


class ShareOut(msgspec.Struct, frozen=True, kw_only=True):
    """What `rebalance` is asked."""

    reason: str
    group: str | None = None

    def ask(self, engine: EngineControl) -> list[Rebalance]:
        """Ask an engine."""
        return engine.rebalance(reason=self.reason, group=self.group)


class ListDelayed(msgspec.Struct, frozen=True, kw_only=True):
    """What `delayed` is asked."""

    level: int | None = None
    topic: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    cursor: str | None = None
    messages_max: int = 100

    def ask(self, engine: EngineControl) -> Later[DelayedPage]:
        """Ask an engine."""
        return engine.delayed(
            level=self.level,
            topic=self.topic,
            from_ms=self.from_ms,
            to_ms=self.to_ms,
            cursor=self.cursor,
            messages_max=self.messages_max,
        )


class ListLites(msgspec.Struct, frozen=True, kw_only=True):
    """What `lite_topics` is asked."""

    topic: str
    after: str = ""
    count: int = 100

    def ask(self, engine: EngineControl) -> LitePage:
        """Ask an engine."""
        return engine.lite_topics(self.topic, after=self.after, count=self.count)


class ResendLetters(msgspec.Struct, frozen=True, kw_only=True):
    """What `resend` is asked."""

    group: str
    queue_offsets: list[int]
    topic: str | None = None
    by: str = ""

    def ask(self, engine: EngineControl) -> Later[list[ResendResult]]:
        """Ask an engine."""
        return engine.resend(self.group, self.queue_offsets, topic=self.topic, by=self.by)


class ListTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """What `transactions` is asked."""

    producer_group: str | None = None
    after: int = -1
    messages_max: int = 100

    def ask(self, engine: EngineControl) -> Later[list[PendingTransaction]]:
        """Ask an engine."""
        return engine.transactions(
            producer_group=self.producer_group, after=self.after, messages_max=self.messages_max
        )


class EndTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """What `end_transaction` is asked."""

    transaction_id: str
    outcome: Outcome
    by: str = ""

    def ask(self, engine: EngineControl) -> Later[Ended]:
        """Ask an engine."""
        return engine.end_transaction(self.transaction_id, self.outcome, by=self.by)


class ListGivenUp(msgspec.Struct, frozen=True, kw_only=True):
    """What `given_up` is asked."""

    before: int | None = None
    messages_max: int = 100

    def ask(self, engine: EngineControl) -> Later[GivenUpPage]:
        """Ask an engine."""
        return engine.given_up(before=self.before, messages_max=self.messages_max)


class OffsetsAt(msgspec.Struct, frozen=True, kw_only=True):
    """What `offsets_at` is asked."""

    places: list[QueuePlace]
    time_ms: int

    def ask(self, engine: EngineControl) -> Later[list[int]]:
        """Ask an engine."""
        return engine.offsets_at(self.places, self.time_ms)


class SendGivenUp(msgspec.Struct, frozen=True, kw_only=True):
    """What `send_given_up` is asked."""

    given_up_offset: int
    transaction_id: str
    by: str = ""

    def ask(self, engine: EngineControl) -> Later[SentAfterAll]:
        """Ask an engine."""
        return engine.send_given_up(
            self.given_up_offset, transaction_id=self.transaction_id, by=self.by
        )


VERBS: Mapping[str, Verb] = MappingProxyType(
    {
        "catalog": Verb(None, CatalogSnapshot, lambda engine, _nothing: engine.catalog),
        "publish_catalog": Verb(
            CatalogSnapshot, None, lambda engine, snapshot: engine.publish_catalog(snapshot)
        ),
        "queue_ranges": Verb(
            str, list[QueueRange], lambda engine, topic: engine.queue_ranges(topic)
        ),
        "topic_ranges": Verb(
            list[str] | None,
            dict[str, list[QueueRange]],
            lambda engine, topics: engine.topic_ranges(topics),
        ),
        "topic_totals": Verb(
            None, dict[str, TopicTotal], lambda engine, _nothing: engine.topic_totals()
        ),
        "group_progress": Verb(
            str | None, list[GroupProgress], lambda engine, group: engine.group_progress(group)
        ),
        "clients": Verb(str | None, list[ClientSeen], lambda engine, group: engine.clients(group)),
        "forget_silent_clients": Verb(
            int, list[ClientSeen], lambda engine, silent_ms: engine.forget_silent_clients(silent_ms)
        ),
        "members": Verb(str | None, list[MemberState], lambda engine, group: engine.members(group)),
        "rebalances": Verb(
            str | None, list[Rebalance], lambda engine, group: engine.rebalances(group)
        ),
        "queue_locks": Verb(
            str | None, list[QueueLockState], lambda engine, group: engine.queue_locks(group)
        ),
        # A second release could take the lock from whoever got it after the first.
        "release_lock": Verb(
            ReleaseLock,
            LockTransition | None,
            lambda engine, asked: asked.ask(engine),
            is_repeatable=False,
        ),
        "rebalance": Verb(ShareOut, list[Rebalance], lambda engine, asked: asked.ask(engine)),
        "history": Verb(int, GroupHistory, lambda engine, after: engine.history(after)),
        "lock_refusals": Verb(
            int, list[LockRefused], lambda engine, since_ms: engine.lock_refusals(since_ms)
        ),
        "backlog": Verb(
            str | None, list[QueueBacklog], lambda engine, group: engine.backlog(group)
        ),
        "status": Verb(None, EngineStatus, lambda engine, _nothing: engine.status()),
        "clean_now": Verb(None, Cleaned, lambda engine, _nothing: engine.clean_now()),
        "own_ranges": Verb(
            str, dict[str, list[QueueRange]], lambda engine, prefix: engine.own_ranges(prefix)
        ),
        "lite_topics": Verb(ListLites, LitePage, lambda engine, asked: asked.ask(engine)),
        "lite_subscriptions": Verb(
            str,
            tuple[LiteSubscription, ...],
            lambda engine, group: engine.lite_subscriptions(group),
        ),
        "lite_totals": Verb(
            None, dict[str, LiteTotal], lambda engine, _nothing: engine.lite_totals()
        ),
        "lite_backlog": Verb(
            str | None, list[LiteBacklog], lambda engine, group: engine.lite_backlog(group)
        ),
        "deliver_levels": Verb(
            int, LevelsDelivered, lambda engine, most: engine.deliver_levels(most)
        ),
        "delay_levels": Verb(None, LevelsDelivered, lambda engine, _nothing: engine.delay_levels()),
        "delayed": Verb(ListDelayed, DelayedPage, lambda engine, asked: asked.ask(engine)),
        "delayed_copies": Verb(
            str, DelayedCopies, lambda engine, message_id: engine.delayed_copies(message_id)
        ),
        "delay_status": Verb(None, DelayStatus, lambda engine, _nothing: engine.delay_status()),
        "recall": Verb(str, Recall, lambda engine, handle: engine.recall(handle)),
        "deliver_now": Verb(str, Recall, lambda engine, handle: engine.deliver_now(handle)),
        "resend": Verb(ResendLetters, list[ResendResult], lambda engine, asked: asked.ask(engine)),
        "transactions": Verb(
            ListTransactions, list[PendingTransaction], lambda engine, asked: asked.ask(engine)
        ),
        "transaction_status": Verb(
            None, TransactionStatus, lambda engine, _nothing: engine.transaction_status()
        ),
        "end_transaction": Verb(EndTransaction, Ended, lambda engine, asked: asked.ask(engine)),
        "check_now": Verb(
            str, PendingTransaction | None, lambda engine, named: engine.check_now(named)
        ),
        "give_up_transactions": Verb(
            int, int, lambda engine, most: engine.give_up_transactions(most)
        ),
        "group_retries": Verb(str, GroupRetries, lambda engine, group: engine.group_retries(group)),
        "given_up": Verb(ListGivenUp, GivenUpPage, lambda engine, asked: asked.ask(engine)),
        "attend": Verb(CareRequest, CareResult, lambda engine, asked: engine.attend(asked)),
        "reset_offsets": Verb(
            ResetRequest, ResetResult, lambda engine, asked: engine.reset_offsets(asked)
        ),
        "offsets_at": Verb(OffsetsAt, list[int], lambda engine, asked: asked.ask(engine)),
        "what_if": Verb(WhatIfRequest, WhatIf, lambda engine, asked: engine.what_if(asked)),
        "send_given_up": Verb(SendGivenUp, SentAfterAll, lambda engine, asked: asked.ask(engine)),
    }
)


class Refusal(msgspec.Struct, frozen=True):
    """What is answered instead of an answer: the error's code and its text."""

    code: str
    text: str


def token_of(secret_key: str) -> str:
    """Return the token that processes with the same secret key share."""
    return hmac.new(secret_key.encode(), _TOKEN_LABEL, hashlib.sha256).hexdigest()


def packed(value: object) -> bytes:
    """Write an argument, an answer or a refusal."""
    return _encode(value)


def unpacked(data: bytes, kind: Any) -> Any:  # The type is a value here, see Verb.
    """Read a value of the given type; raise ValueError for anything else."""
    return msgspec.msgpack.decode(data, type=kind)


def refusal_of(error: EngineError) -> Refusal:
    """Return an error as it travels."""
    return Refusal(code=error.code, text=str(error))


def error_of(refusal: Refusal) -> EngineError:
    """Return the error that was refused with; EngineError itself where the code is not known."""
    return _KINDS.get(refusal.code, EngineError)(refusal.text)


def _kinds() -> dict[str, type[EngineError]]:
    kinds: list[type[EngineError]] = [EngineError]
    for kind in kinds:
        # An engine that answers has been opened, and these need more than a text.
        kinds.extend(below for below in kind.__subclasses__() if below is not CannotOpen)
    return {kind.code: kind for kind in kinds}


_KINDS = _kinds()
