"""The data plane as OpenAPI 3.1, made from the routes and the documents it really uses.

Plain dictionaries: whoever publishes the schema merges them with the control plane's.
"""

from typing import Any

import msgspec

from apps.doors.http import pull, shapes
from apps.doors.http.routing import ROWS, Row, Verb
from apps.engine import limits
from apps.engine.codec import wire
from apps.engine.types import AckMode

# JSON documents of any depth, for which Python's types have no better name.
Document = dict[str, Any]

_TYPES = (
    shapes.SendRequest,
    shapes.SendAnswer,
    shapes.BatchAnswer,
    shapes.PullAnswer,
    shapes.ReceiveBody,
    shapes.ReceiveAnswer,
    shapes.AckRequest,
    shapes.NackRequest,
    shapes.ExtendRequest,
    shapes.SettleAnswer,
    shapes.CommitRequest,
    shapes.Health,
    shapes.Problem,
)
_TEMPLATE = "#/components/schemas/{name}"
_JSON = "application/json"
_PROBLEM = "application/problem+json"


def components() -> Document:
    """Return the `components` object: one schema a document of the data plane."""
    _references, schemas = msgspec.json.schema_components(_TYPES, ref_template=_TEMPLATE)
    return {"schemas": dict(schemas)}


def paths() -> Document:
    """Return the `paths` object: every address and method the door answers, absent ones too."""
    return {row.path: _path_item(row) for row in ROWS}


def _path_item(row: Row) -> Document:
    item: Document = {}
    for method, verb in row.verbs.items():
        if method == "HEAD":
            continue
        operation = _operation(verb)
        operation["operationId"] = _operation_id(row.path, verb)
        operation["parameters"] = _path_parameters(row.path) + operation.get("parameters", [])
        operation["responses"]["default"] = _answer("A problem document.", {_PROBLEM: "Problem"})
        item[method.lower()] = operation
    return item


def _operation_id(path: str, verb: Verb) -> str:
    if verb is not Verb.UNSUPPORTED:
        return f"data_{verb.value}"
    words = "".join(letter if letter.isalnum() else " " for letter in path).split()
    return "_".join(["data", *words[2:]])


def _path_parameters(path: str) -> list[Document]:
    names = [part.partition("}")[0] for part in path.split("{")[1:]]
    return [
        {"name": name, "in": "path", "required": True, "schema": _path_schema(name)}
        for name in names
    ]


def _path_schema(name: str) -> Document:
    if name in ("topic", "group"):
        return {"type": "string", "pattern": f"^{limits.NAME_PATTERN.pattern}$"}
    if name == "queue":
        return {"type": "integer", "minimum": 0, "maximum": limits.QUEUE_COUNT_MAX - 1}
    return {"type": "string"}


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
        media_type: {} if name is None else {"schema": {"$ref": _TEMPLATE.format(name=name)}}
        for media_type, name in documents.items()
    }


def _answer(text: str, documents: dict[str, str | None] | None = None) -> Document:
    return {"description": text} | ({"content": _content(documents)} if documents else {})


def _body(documents: dict[str, str | None]) -> Document:
    return {"required": True, "content": _content(documents)}


def _settling(summary: str, request: str) -> Document:
    return {
        "summary": summary,
        "requestBody": _body({_JSON: request}),
        "responses": {
            "200": _answer("Every handle was good.", {_JSON: "SettleAnswer"}),
            "207": _answer("Some handles were expired or invalid.", {_JSON: "SettleAnswer"}),
        },
    }


def _operation(verb: Verb) -> Document:
    return {"tags": ["data plane"]} | _OPERATIONS[verb]()


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
                "description": "All messages are stored: a result each, or where the batch lies.",
                "content": {
                    _JSON: {
                        "schema": {
                            "oneOf": [
                                {"$ref": _TEMPLATE.format(name="SendAnswer")},
                                {"$ref": _TEMPLATE.format(name="BatchAnswer")},
                            ]
                        }
                    },
                    wire.MEDIA_TYPE: {},
                },
            },
            "202": _answer("Handed over with ack `oneway`; nothing is promised."),
            "207": _answer("Some messages were refused, the others stored.", {_JSON: "SendAnswer"}),
        },
    }


def _pull() -> Document:
    text = {"type": "string", "default": "*"}
    offset = {"type": "string", "pattern": "^[0-9]{1,19}$"}
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
            _query("filter", text, "Tags, `A || B`; `*` for all messages."),
        ],
        "responses": {
            "200": _answer("What was found.", {_JSON: "PullAnswer", wire.MEDIA_TYPE: None})
        },
    }


def _receive() -> Document:
    return {
        "summary": "Hand out messages of a group",
        "requestBody": _body({_JSON: "ReceiveBody"}),
        "responses": {
            "200": _answer(
                "Messages and their handles; an empty list when nothing came.",
                {_JSON: "ReceiveAnswer", wire.MEDIA_TYPE: None},
            )
        },
    }


def _commit() -> Document:
    return {
        "summary": "Set the progress of a group",
        "requestBody": _body({_JSON: "CommitRequest"}),
        "responses": {"204": _answer("All offsets are set.")},
    }


def _probe(summary: str, meaning: str) -> Document:
    return {"summary": summary, "responses": {"200": _answer(meaning, {_JSON: "Health"})}}


def _metrics() -> Document:
    return {
        "summary": "Prometheus metrics",
        "responses": {"200": _answer("Prometheus text 0.0.4.", {"text/plain": None})},
    }


def _unsupported() -> Document:
    return {
        "summary": "Not in this version",
        "responses": {"501": _answer("Code `unsupported`.", {_PROBLEM: "Problem"})},
    }


_OPERATIONS = {
    Verb.SEND: _send,
    Verb.PULL: _pull,
    Verb.RECEIVE: _receive,
    Verb.ACK: lambda: _settling("Settle messages for good", "AckRequest"),
    Verb.NACK: lambda: _settling("Give messages back", "NackRequest"),
    Verb.EXTEND: lambda: _settling("Hide messages for longer", "ExtendRequest"),
    Verb.COMMIT: _commit,
    Verb.ALIVE: lambda: _probe("Is the process alive?", "It serves requests."),
    Verb.READY: lambda: _probe("Is the engine open?", "It is."),
    Verb.METRICS: _metrics,
    Verb.UNSUPPORTED: _unsupported,
}

assert set(_OPERATIONS) == set(Verb)
