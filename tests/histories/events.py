"""One line of a history: an event at a client. Knows JSON and names; no file, clock or product.

Clients write down what they saw, and checkers say what must be true of it. Nothing in this folder
imports the product, so that what is checked is not checked by itself.

An operation is two events of one process and one number: its invocation, written before the
request leaves, and its completion, written after the reply. Its completion is

    ok     the other side said that it was done
    fail   the other side proved that nothing happened
    info   nobody knows: no reply, or one that does not say

An operation without a completion is one whose client ended first, and so `info` too. An event
of kind `info` whose number nobody invoked is a notice: something that happened at one moment.

    verb       asked (invocation, notice)                told (ok; `code` with fail and info)
    send       producer, topic,                          places [[queue, offset]]
               messages [[id, key, tag, digest]]
    deliver    group, client, topic, queue,              done: so many, from the first on
               messages [[id, offset, digest]],
               invisible_ms (only of a lease of messages)
    ack, nack  group, client, ids
    commit     group, client,
               offsets [[topic, queue, offset, epoch]]
    lock       group, client, queues [[topic, queue]]    locked [[topic, queue, epoch, ms]],
                                                         refused [[topic, queue, owner]]
    unlock     group, client, queues [[topic, queue]]
    pull       group, client, topic, queue, offset, epoch
    join       group, client
    leave      group, client
    progress   group                                     offsets [[topic, queue, committed, end]]
    delay      producer, topic,
               messages [[id, digest, due_ms]]
    recall     id                                        outcome: cancelled, delivered or unknown
    hasten     id                                        outcome: of a delivery before its time
    begin      producer, topic, id, digest               transaction
    end        id, outcome: committed or rolled_back     repeat, place [topic, queue, offset]
    checks     group, client                             checks [[id, number, checks_max]]
    back       group, client, ids, level                 outcomes: retry, dead_letter, already, gone
    letters    group                                     letters [[number, id, digest, failures,
                                                         origin topic, queue, offset]],
                                                         reasons {number: text}
    resend     group, numbers                            outcomes: sent, already, gone, failed
    suspend, resume  act, group, topic, queue            head
    skip, park act, group, topic, queue, offset, reason  head
    move       act, group, topic, queue, offset, undoes  before, after: of a reset of offsets
    inspect    topics                                    queues [[topic, queue, first, end]],
                                                         records [[topic, queue, offset, id,
                                                         digest]], epochs, faults
    notices
    policy     group, failures_max: a failure more than that makes a dead letter
    given_up   id: of a transaction that nobody decided
    subscribe  group, topic, ordered, tags (null is all of them)
    assign     group, client, generation, queues [[topic, queue]]
    dead       group, topic, queue, offset: given up, and so done
    reset      group, topic, queue, offset: an operator moved the group
    process    target, state started or ended, role client or broker
    nemesis    fault, target (empty for heal)

`deliver` is the run of a listener: invoked as it begins, completed as it returns. A `key` is null
where a message has none. Offsets are queue offsets. An idempotent `send` also asks with
`sequences`, a number per message, and is told `repeats`; the same numbers sent again are the same
messages. A `back` sends messages back that a reader of queues failed at, a `nack` those of a lease;
both may have a `level`, and -1 is straight to the dead letters. Acts of operators with one `act`
are one that was asked for again. `due_ms` is a wall time. An
`inspect` reads the files of a stopped store: the epochs of its writers in the order of the log, and
as text what does not fit together.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple


class Kind(StrEnum):
    """What an event says of its operation."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Verb(StrEnum):
    """What a client, or the one who disturbs it, did."""

    SEND = "send"
    DELIVER = "deliver"
    ACK = "ack"
    NACK = "nack"
    COMMIT = "commit"
    LOCK = "lock"
    UNLOCK = "unlock"
    PULL = "pull"
    JOIN = "join"
    LEAVE = "leave"
    PROGRESS = "progress"
    DELAY = "delay"
    RECALL = "recall"
    HASTEN = "hasten"
    BEGIN = "begin"
    END = "end"
    CHECKS = "checks"
    BACK = "back"
    LETTERS = "letters"
    RESEND = "resend"
    SUSPEND = "suspend"
    RESUME = "resume"
    SKIP = "skip"
    PARK = "park"
    MOVE = "move"
    INSPECT = "inspect"
    POLICY = "policy"
    GIVEN_UP = "given_up"
    SUBSCRIBE = "subscribe"
    ASSIGN = "assign"
    DEAD = "dead"
    DEAD_UNKNOWN = "dead_unknown"
    RESET = "reset"
    PROCESS = "process"
    NEMESIS = "nemesis"


class MalformedEvent(ValueError):
    """A line is not an event."""


# Tuples: a history has a million of them, and a frozen dataclass takes three times as long.
class Event(NamedTuple):
    """Something that happened at a client.

    `at_ns` is the machine's monotonic clock, the same for all processes; `wall_ns` is for people.
    """

    process: str
    number: int
    kind: Kind
    verb: Verb
    at_ns: int
    wall_ns: int
    values: Mapping[str, Any]


def to_line(event: Event) -> bytes:
    """Return the event as one line of JSON, its newline included."""
    return json.dumps(event._asdict(), separators=(",", ":")).encode() + b"\n"


def of_line(line: bytes) -> Event:
    """Return the event of a line, with or without its newline. Raises MalformedEvent."""
    try:
        event = Event(**json.loads(line))
        event = event._replace(kind=_KINDS[event.kind], verb=_VERBS[event.verb])
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedEvent(f"{line[:200]!r} is not an event: {error}") from error
    if not (isinstance(event.number, int) and isinstance(event.at_ns, int)):
        raise MalformedEvent(f"{line[:200]!r} has no number or no time")
    if not isinstance(event.values, dict):
        raise MalformedEvent(f"{line[:200]!r} has no values")
    return event


# Look-ups by text are several times faster than calling the enumeration.
_KINDS = {kind.value: kind for kind in Kind}
_VERBS = {verb.value: verb for verb in Verb}
