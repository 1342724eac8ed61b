"""What each verb takes and answers, as OpenAPI says it. Knows sentences and names of schemas."""

from typing import Any

from apps.doors.http import pull, search, shapes
from apps.doors.http.routing import Verb
from apps.engine import limits
from apps.engine.codec import wire
from apps.engine.types import AckMode, FilterType

# JSON documents of any depth, for which Python's types have no better name.
Document = dict[str, Any]

TEMPLATE = "#/components/schemas/{name}"
_JSON = "application/json"
_PROBLEM = "application/problem+json"
_FENCED = "Code `lock_lost`: the lock of a queue is not the caller's. Nothing is settled."
_OWNED = "Code `lock_lost` or `stale_generation`: the queue is not the caller's."


def operation_of(verb: Verb) -> Document:
    """Return the `operation` object of a verb, without the parameters of its address."""
    return {"tags": ["data plane"]} | _OPERATIONS[verb]()


def _query(name: str, schema: Document, text: str, *, is_required: bool = False) -> Document:
    return {
        "name": name,
        "in": "query",
        "required": is_required,
        "schema": schema,
        "description": text,
    }


def _integer(low: int, high: int, default: int | None = None) -> Document:
    schema: Document = {"type": "integer", "minimum": low, "maximum": high}
    return schema if default is None else schema | {"default": default}


def _content(documents: dict[str, str | None]) -> Document:
    """Return a `content` object; a media type without a schema's name carries bytes."""
    return {
        media_type: {} if name is None else {"schema": {"$ref": TEMPLATE.format(name=name)}}
        for media_type, name in documents.items()
    }


def _answer(text: str, documents: dict[str, str | None] | None = None) -> Document:
    return {"description": text} | ({"content": _content(documents)} if documents else {})


def problem(text: str) -> Document:
    """Return the `response` object of a problem document."""
    return _answer(text, {_PROBLEM: "Problem"})


def _body(documents: dict[str, str | None]) -> Document:
    return {"required": True, "content": _content(documents)}


def _settling(summary: str, request: str) -> Document:
    return {
        "summary": summary,
        "requestBody": _body({_JSON: request}),
        "responses": {
            "200": _answer("Every handle was good.", {_JSON: "SettleAnswer"}),
            "207": _answer("Some handles were expired or invalid.", {_JSON: "SettleAnswer"}),
            "409": problem(_FENCED),
        },
    }


def _send() -> Document:
    acks = {"type": "string", "enum": list(AckMode)}
    queues = _integer(0, limits.QUEUE_COUNT_MAX - 1)
    return {
        "summary": "Send messages",
        "parameters": [
            _query("queue", queues, "The queue of a binary batch, which must name one."),
            _query("ack", acks, "What the answer to a binary batch waits for."),
        ],
        "requestBody": _body({_JSON: "SendRequest", wire.MEDIA_TYPE: None}),
        "responses": {
            "201": {
                "description": "All messages are stored, now or (`repeat`) before: a result each, "
                "or where the batch lies.",
                "content": {
                    _JSON: {
                        "schema": {
                            "oneOf": [
                                {"$ref": TEMPLATE.format(name="SendAnswer")},
                                {"$ref": TEMPLATE.format(name="BatchAnswer")},
                            ]
                        }
                    },
                    wire.MEDIA_TYPE: {},
                },
            },
            "202": _answer("Handed over with ack `oneway`; nothing is promised."),
            "207": _answer("Some messages were refused, the others stored.", {_JSON: "SendAnswer"}),
            "409": problem(
                "Code `sequence_too_old`: below all that is remembered of its producer. Nothing "
                "is stored."
            ),
        },
    }


def _search() -> Document:
    text = {"type": "string"}
    number = {"type": "string", "pattern": "^[0-9]{1,19}$"}
    offset_ids = {"type": "string", "pattern": "^[0-9A-Fa-f]{32}$"}
    time = "RFC 3339 with a time zone, or milliseconds since 1970 UTC."
    return {
        "summary": "Find messages that are all of what is given, the newest first",
        "parameters": [
            _query("key", text, "One of the message's keys."),
            _query("message_id", text, "The id the message shows."),
            _query("offset_id", offset_ids, "RocketMQ's id of its place in the log."),
            _query("from", text, f"Stored at this time or later. {time}"),
            _query("to", text, f"Stored before this time. {time}"),
            _query("tag", text, "The message's tag."),
            _query("queue", _integer(0, limits.QUEUE_COUNT_MAX - 1), "The queue it is in."),
            _query("offset", number, "Its offset there; needs the queue."),
            _query("filter", text, "A condition on its properties, in SQL92."),
            _query("cursor", number, "Where the answer before ended: its `next_cursor`."),
            _query(
                "max",
                _integer(1, limits.SEARCH_MESSAGES_MAX, search.MESSAGES_DEFAULT),
                "Messages at most.",
            ),
            _query(
                "max_bytes",
                _integer(1, limits.FETCH_BYTES_MAX, search.BYTES_DEFAULT),
                "Bytes at most, yet at least one message.",
            ),
        ],
        "responses": {"200": _answer("What was found.", {_JSON: "SearchAnswer"})},
    }


def _pull() -> Document:
    text = {"type": "string", "default": "*"}
    offset = {"type": "string", "pattern": "^[0-9]{1,19}$"}
    types = {"type": "string", "enum": list(FilterType), "default": FilterType.TAG}
    group = {"type": "string", "pattern": f"^{limits.NAME_PATTERN.pattern}$"}
    client = {"type": "string", "maxLength": limits.CLIENT_ID_CHARACTERS_MAX}
    fence = _integer(0, shapes.FENCE_MAX)
    most = limits.FETCH_MESSAGES_MAX
    return {
        "summary": "Read a queue from an offset",
        "parameters": [
            _query("offset", offset, "Where to read from.", is_required=True),
            _query("max", _integer(1, most, pull.MESSAGES_DEFAULT), "Messages at most."),
            _query(
                "max_bytes",
                _integer(1, limits.FETCH_BYTES_MAX, pull.BYTES_DEFAULT),
                "Bytes at most, yet at least one message.",
            ),
            _query("wait_ms", _integer(0, limits.WAIT_MS_MAX, 0), "How long to wait for one."),
            _query("filter", text, "Tags, `A || B`, `*` for all messages; or a condition."),
            _query("filter_type", types, "What the filter is: tags, or a condition in SQL92."),
            _query("group", group, "The group whose member reads."),
            _query("client_id", client, "Which member that is."),
            _query("epoch", fence, "Must be that of the queue's lock; needs a group."),
            _query("generation", fence, "Queue must be assigned to the member; needs a group."),
        ],
        "responses": {
            "200": _answer("What was found.", {_JSON: "PullAnswer", wire.MEDIA_TYPE: None}),
            "409": problem(f"{_OWNED} It may be lost while the pull waits."),
        },
    }


def _receive() -> Document:
    return {
        "summary": "Hand out messages of a group",
        "requestBody": _body({_JSON: "ReceiveBody"}),
        "responses": {
            "200": _answer(
                "Messages and their handles; an empty list when nothing came. `blocked_by_lock` "
                "has numbers where one topic was asked for, else topics and numbers.",
                {_JSON: "ReceiveAnswer", wire.MEDIA_TYPE: None},
            )
        },
    }


def _commit() -> Document:
    return {
        "summary": "Set the progress of a group",
        "requestBody": _body({_JSON: "CommitRequest"}),
        "responses": {
            "204": _answer("All offsets are set."),
            "409": problem(f"{_OWNED} No offset is set."),
        },
    }


def _begin() -> Document:
    return {
        "summary": "Where a group goes on",
        "requestBody": _body({_JSON: "BeginBody"}),
        "responses": {"200": _answer("An offset a queue.", {_JSON: "BeginAnswer"})},
    }


def _offset_at() -> Document:
    time = {"type": "string"}
    text = "RFC 3339 with a time zone, or milliseconds since 1970 UTC."
    return {
        "summary": "The first message at or after a time",
        "parameters": [_query("time", time, text, is_required=True)],
        "responses": {"200": _answer("Its offset.", {_JSON: "OffsetAtAnswer"})},
    }


def _heartbeat() -> Document:
    return {
        "summary": "Join a group, or stay in it, and learn the queues of one's own",
        "requestBody": _body({_JSON: "HeartbeatBody"}),
        "responses": {
            "200": _answer(
                "The assignment: at once where the generation is another one, else when it "
                "changes, or after `wait_ms`.",
                {_JSON: "HeartbeatAnswer"},
            )
        },
    }


def _leave() -> Document:
    return {
        "summary": "Leave a group and give its locks back",
        "requestBody": _body({_JSON: "EmptyBody"}) | {"required": False},
        "responses": {"204": _answer("The client is no member of the group.")},
    }


def _locks(summary: str, meaning: str, *, body: str = "LocksBody") -> Document:
    return {
        "summary": summary,
        "requestBody": _body({_JSON: body}),
        "responses": {"200": _answer(meaning, {_JSON: "LocksAnswer"})},
    }


def _probe(summary: str, meaning: str) -> Document:
    return {"summary": summary, "responses": {"200": _answer(meaning, {_JSON: "Health"})}}


def _metrics() -> Document:
    return {
        "summary": "Prometheus metrics",
        "responses": {"200": _answer("Prometheus text 0.0.4.", {"text/plain": None})},
    }


def _send_back() -> Document:
    return {
        "summary": "Have messages tried again that the reader of a queue failed at",
        "requestBody": _body({_JSON: "SendBackBody"}),
        "responses": {
            "200": _answer("Each is taken care of.", {_JSON: "SendBackAnswer"}),
            "207": _answer("Some are not in their queue (410).", {_JSON: "SendBackAnswer"}),
            "409": problem(f"{_OWNED} Nothing is sent back."),
        },
    }


def _begin_transaction() -> Document:
    return {
        "summary": "Send a message that nobody sees until its transaction is committed",
        "requestBody": _body({_JSON: "BeginTransactionBody"}),
        "responses": {"201": _answer("It is stored.", {_JSON: "BegunAnswer"})},
    }


def _end_transaction(summary: str) -> Document:
    return {
        "summary": summary,
        "requestBody": _body({_JSON: "EmptyBody"}) | {"required": False},
        "responses": {
            "200": _answer("It is decided so, now or before.", {_JSON: "EndedAnswer"}),
            "404": problem("Code `unknown_transaction`."),
            "409": problem("Code `transaction_decided`: it was decided otherwise before."),
        },
    }


def _receive_checks() -> Document:
    return {
        "summary": "Ask which transactions of a producer group are to be decided",
        "requestBody": _body({_JSON: "ChecksBody"}),
        "responses": {
            "200": _answer(
                "Messages whose transactions are to be committed or rolled back; an empty list "
                "when nothing came.",
                {_JSON: "ChecksAnswer"},
            )
        },
    }


def _recall(summary: str, meaning: str, conflict: str) -> Document:
    return {
        "summary": summary,
        "responses": {
            "200": _answer(meaning, {_JSON: "RecallAnswer"}),
            "404": problem("Code `unknown_handle`."),
            "409": problem(conflict),
        },
    }


def _deliver_now() -> Document:
    return _recall(
        "Deliver a delayed message before its time",
        "It is in its queue, now or because it was due.",
        "Code `already_cancelled`.",
    ) | {"requestBody": _body({_JSON: "EmptyBody"}) | {"required": False}}


_OPERATIONS = {
    Verb.SEND: _send,
    Verb.SEARCH: _search,
    Verb.PULL: _pull,
    Verb.RECEIVE: _receive,
    Verb.ACK: lambda: _settling("Settle messages for good", "AckRequest"),
    Verb.NACK: lambda: _settling("Give messages back", "NackRequest"),
    Verb.SEND_BACK: _send_back,
    Verb.EXTEND: lambda: _settling("Hide messages for longer", "ExtendRequest"),
    Verb.COMMIT: _commit,
    Verb.BEGIN: _begin,
    Verb.OFFSET_AT: _offset_at,
    Verb.HEARTBEAT: _heartbeat,
    Verb.LEAVE: _leave,
    Verb.ACQUIRE: lambda: _locks(
        "Take or renew locks of queues", "Which are the caller's, and whose the others are."
    ),
    Verb.RELEASE: lambda: _locks(
        "Give locks of queues back",
        "Nothing is locked; those of others are refused.",
        body="ReleaseBody",
    ),
    Verb.BEGIN_TRANSACTION: _begin_transaction,
    Verb.COMMIT_TRANSACTION: lambda: _end_transaction("Let everybody see a message"),
    Verb.ROLL_BACK_TRANSACTION: lambda: _end_transaction("Drop a message that nobody saw"),
    Verb.RECEIVE_CHECKS: _receive_checks,
    Verb.RECALL: lambda: _recall(
        "Cancel a delayed message",
        "It will not be delivered: it is cancelled, now or before.",
        "Code `already_delivered`.",
    ),
    Verb.DELIVER_NOW: _deliver_now,
    Verb.ALIVE: lambda: _probe("Is the process alive?", "It serves requests."),
    Verb.READY: lambda: _probe("Is the engine open?", "It is."),
    Verb.METRICS: _metrics,
}

assert set(_OPERATIONS) == set(Verb)
