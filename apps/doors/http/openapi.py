"""The data plane as OpenAPI 3.1, made from the routes and the documents it really uses.

Plain dictionaries: whoever publishes the schema merges them with the control plane's.
"""

import msgspec

from apps.doors.http import careshapes, groupshapes, operations, shapes
from apps.doors.http.operations import Document
from apps.doors.http.routing import ROWS, TOKEN_PATTERN, Row
from apps.engine import limits

_TYPES = (
    shapes.SendRequest,
    shapes.SendAnswer,
    shapes.BatchAnswer,
    shapes.SearchAnswer,
    shapes.PullAnswer,
    shapes.ReceiveBody,
    shapes.ReceiveAnswer,
    shapes.AckRequest,
    shapes.NackRequest,
    shapes.ExtendRequest,
    shapes.SettleAnswer,
    shapes.EmptyBody,
    shapes.Health,
    shapes.Problem,
    groupshapes.CommitRequest,
    groupshapes.BeginBody,
    groupshapes.BeginAnswer,
    groupshapes.OffsetAtAnswer,
    groupshapes.HeartbeatBody,
    groupshapes.HeartbeatAnswer,
    groupshapes.LocksBody,
    groupshapes.ReleaseBody,
    groupshapes.LocksAnswer,
    careshapes.SendBackBody,
    careshapes.SendBackAnswer,
    careshapes.BeginTransactionBody,
    careshapes.BegunAnswer,
    careshapes.EndedAnswer,
    careshapes.ChecksBody,
    careshapes.ChecksAnswer,
    careshapes.RecallAnswer,
)


def components() -> Document:
    """Return the `components` object: one schema a document of the data plane."""
    _references, schemas = msgspec.json.schema_components(_TYPES, ref_template=operations.TEMPLATE)
    return {"schemas": dict(schemas)}


def paths() -> Document:
    """Return the `paths` object: every address and method the door answers."""
    return {row.path: _path_item(row) for row in ROWS}


def _path_item(row: Row) -> Document:
    item: Document = {}
    for method, verb in row.verbs.items():
        if method == "HEAD":
            continue
        operation = operations.operation_of(verb)
        operation["operationId"] = f"data_{verb.value}"
        operation["parameters"] = _path_parameters(row.path) + operation.get("parameters", [])
        operation["responses"]["default"] = operations.problem("A problem document.")
        item[method.lower()] = operation
    return item


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
    if name == "client_id":
        return {"type": "string", "minLength": 1, "maxLength": limits.CLIENT_ID_CHARACTERS_MAX}
    return {"type": "string", "pattern": f"^{TOKEN_PATTERN.pattern}$"}
