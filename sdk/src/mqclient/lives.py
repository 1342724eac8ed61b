"""What became of a message, as the broker tells it. Knows values only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeEvent:
    """One thing that happened to a message, or is so now; what is not known is None.

    `kind` says what: made, half, stored, committed, undecided, given_up, waiting, recalled,
    lock_wait, lock, worked, failed, retried, dead, resent, discarded, settled, in_flight or
    not_yet. `source` says from where it is known: log, traces, locks, dead_letters or broker.
    Times are wall times in milliseconds: of `made` the producer's, of `worked` the consumer's.
    """

    kind: str
    source: str
    at_ms: int | None = None
    ended_ms: int | None = None
    group: str | None = None
    client_id: str | None = None
    attempt: int | None = None
    topic: str | None = None
    queue: int | None = None
    queue_offset: int | None = None
    result: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLife:
    """What is known of a message, the earliest first, those without a time last.

    `unknown` names what is not known and why: pairs of a code and a sentence. `scan_incomplete`
    says that the broker ended its searches before it had looked everywhere.
    """

    message_id: str
    topic: str | None
    queue: int | None
    queue_offset: int | None
    events: tuple[LifeEvent, ...]
    unknown: tuple[tuple[str, str], ...]
    scan_incomplete: bool
