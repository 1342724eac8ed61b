"""Values of transactions: half messages, decisions, checks. Knows no files, clock or door."""

from dataclasses import dataclass
from enum import StrEnum

from apps.engine.types import MessageBlock


class Outcome(StrEnum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    GIVEN_UP = "given_up"
    """Nobody decided in time; the message is in TRANS_CHECK_MAX_TIME_TOPIC and stays invisible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A stored half message. `half_offset` is its queue offset in the topic of half messages."""

    transaction_id: str
    half_offset: int
    store_time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A decided transaction. `is_repeat` says that it had been decided so before.

    A committed message is at `queue_offset` of its queue; None for other outcomes, and for a
    decision too long ago to remember where the message went.
    """

    transaction_id: str
    outcome: Outcome
    is_repeat: bool = False
    topic: str = ""
    queue: int | None = None
    queue_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A half message its producers are asked about; `block` is its one record, topic restored.

    `number` says how many checks there were with this one, `checks_max` how many there may be.
    """

    transaction_id: str
    number: int
    checks_max: int
    block: MessageBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTransaction:
    """An undecided half message as operators see it. Times are wall times.

    `next_check_ms` None: it is not checked any more and will be given up. `producers` is how many
    clients of its group wait for checks right now.
    """

    transaction_id: str
    half_offset: int
    topic: str
    queue: int
    message_id: str
    producer_group: str
    begun_ms: int
    checks: int
    next_check_ms: int | None
    last_check_ms: int | None = None
    last_client_id: str = ""
    producers: int = 0
    size_bytes: int = 0
    keys: str = ""
    tag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStatus:
    """Counters of transactions since the store was opened, but for what is pending.

    `given_up_waiting` is how many given-up messages the log holds that nobody sent after all.
    """

    pending: int = 0
    begun: int = 0
    committed: int = 0
    rolled_back: int = 0
    given_up: int = 0
    checks: int = 0
    given_up_waiting: int = 0
    oldest_begun_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUpMessage:
    """A message whose transaction nobody decided in time, as operators see it. Wall times.

    `given_up_offset` is its place in TRANS_CHECK_MAX_TIME_TOPIC, `topic` and `queue` where it was
    for. What the record does not say is None. `sent_ms` is when a person sent it there after all,
    None where nobody did; it is then at `sent_offset` of `sent_queue`.
    """

    given_up_offset: int
    transaction_id: str | None
    half_offset: int | None
    topic: str
    queue: int
    message_id: str
    producer_group: str
    born_ms: int
    given_up_ms: int
    checks: int | None
    size_bytes: int
    keys: str = ""
    tag: str = ""
    sent_ms: int | None = None
    sent_by: str = ""
    sent_queue: int | None = None
    sent_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUpPage:
    """Given-up messages, the newest first; `before` asks for those before them, None for none."""

    messages: tuple[GivenUpMessage, ...]
    before: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAfterAll:
    """A given-up message in the topic it was for. `is_repeat` says that it was sent before."""

    topic: str
    queue: int
    queue_offset: int
    is_repeat: bool = False
