"""Which address means which verb. Knows paths and methods; calls nothing.

A path is matched before it is percent-decoded, so an encoded slash never makes another address.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from apps.engine import limits
from apps.engine.errors import EngineError, InvalidArgument, InvalidName

# Longer than any valid address: a name of 127 characters and a client id of 255, each character
# of up to four bytes and each byte written as `%XX`.
PATH_BYTES_MAX = 4096
# A recall handle or a transaction id. What is none of these was not issued by any store.
TOKEN_PATTERN = re.compile(r"[A-Za-z0-9._=-]{1,1024}")
_QUEUE = re.compile(r"[0-9]{1,10}")


class Verb(StrEnum):
    """What the door can be asked to do."""

    SEND = "send"
    SEARCH = "search"
    PULL = "pull"
    RECEIVE = "receive"
    ACK = "ack"
    NACK = "nack"
    SEND_BACK = "send_back"
    EXTEND = "extend"
    COMMIT = "commit"
    BEGIN = "begin"
    OFFSET_AT = "offset_at"
    HEARTBEAT = "heartbeat"
    LEAVE = "leave"
    ACQUIRE = "acquire_locks"
    RELEASE = "release_locks"
    BEGIN_TRANSACTION = "begin_transaction"
    COMMIT_TRANSACTION = "commit_transaction"
    ROLL_BACK_TRANSACTION = "roll_back_transaction"
    RECEIVE_CHECKS = "receive_checks"
    RECALL = "recall"
    DELIVER_NOW = "deliver_now"
    ALIVE = "alive"
    READY = "ready"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Row:
    """One address of the contract: what each method means there."""

    path: str
    verbs: Mapping[str, Verb]
    control_plane: frozenset[str] = frozenset()
    """Methods of the same address that are the control plane's."""


def _get(path: str, verb: Verb) -> Row:
    return Row(path, {"GET": verb, "HEAD": verb})


def _post(path: str, verb: Verb) -> Row:
    return Row(path, {"POST": verb})


ROWS = (
    Row(
        "/api/v1/topics/{topic}/messages",
        {"POST": Verb.SEND, "GET": Verb.SEARCH, "HEAD": Verb.SEARCH},
    ),
    _get("/api/v1/topics/{topic}/queues/{queue}/messages", Verb.PULL),
    _post("/api/v1/groups/{group}/messages:receive", Verb.RECEIVE),
    _post("/api/v1/groups/{group}/messages:ack", Verb.ACK),
    _post("/api/v1/groups/{group}/messages:nack", Verb.NACK),
    _post("/api/v1/groups/{group}/messages:extend", Verb.EXTEND),
    _post("/api/v1/groups/{group}/messages:send-back", Verb.SEND_BACK),
    _post("/api/v1/groups/{group}/offsets:commit", Verb.COMMIT),
    _post("/api/v1/groups/{group}/offsets:begin", Verb.BEGIN),
    _get("/api/v1/topics/{topic}/queues/{queue}/offset", Verb.OFFSET_AT),
    _post("/api/v1/groups/{group}/members/{client_id}:heartbeat", Verb.HEARTBEAT),
    _post("/api/v1/groups/{group}/members/{client_id}:leave", Verb.LEAVE),
    _post("/api/v1/groups/{group}/locks:acquire", Verb.ACQUIRE),
    _post("/api/v1/groups/{group}/locks:release", Verb.RELEASE),
    _post("/api/v1/topics/{topic}/transactions", Verb.BEGIN_TRANSACTION),
    _post("/api/v1/transactions/{transaction_id}:commit", Verb.COMMIT_TRANSACTION),
    _post("/api/v1/transactions/{transaction_id}:rollback", Verb.ROLL_BACK_TRANSACTION),
    _post("/api/v1/producer-groups/{group}/checks:receive", Verb.RECEIVE_CHECKS),
    # Above the row whose last segment would take the verb's name in.
    _post("/api/v1/delayed/{recall_handle}:deliver-now", Verb.DELIVER_NOW),
    Row(
        "/api/v1/delayed/{recall_handle}",
        {"DELETE": Verb.RECALL},
        control_plane=frozenset({"GET", "HEAD", "OPTIONS"}),
    ),
    _get("/healthz", Verb.ALIVE),
    _get("/readyz", Verb.READY),
    _get("/metrics", Verb.METRICS),
)


@dataclass(frozen=True, slots=True)
class Match:
    """A request's address, taken apart. `name` is the topic or the group, empty without one.

    `token` is the recall handle or the transaction id, empty for what can be none.
    """

    row: Row
    name: str = ""
    queue: int = -1
    client_id: str = ""
    token: str = ""
    refusal: tuple[type[EngineError], str] | None = None
    """What is wrong with the names, to be raised; checked after the method."""


# A client chooses its id itself and may well put a slash into it. Decoded, as `is_data_plane` gets
# the path, that is no other address either.
_SEGMENTS = {"client_id": ".+"}


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", path)
    return re.compile(
        "".join(
            f"(?P<{part}>{_SEGMENTS.get(part, '[^/]+')})" if index % 2 else re.escape(part)
            for index, part in enumerate(parts)
        )
    )


_PATTERNS = tuple((_pattern(row.path), row) for row in ROWS)


def is_data_plane(path: str, method: str) -> bool:
    """Say whether a request is the door's to answer, by its decoded path.

    A known address with a wrong method is, unless the control plane serves that method there.
    """
    row = _row_of(path) if len(path) <= PATH_BYTES_MAX else None
    return row is not None and method not in row.control_plane


# The same few paths come again and again: answers are kept, a bounded number of bounded size.
_kept = lru_cache(maxsize=4096)


@_kept
def _row_of(path: str) -> Row | None:
    return next((row for pattern, row in _PATTERNS if pattern.fullmatch(path)), None)


def resolve(raw_path: bytes) -> Match | None:
    """Take a path apart as it came over the wire; None when the door serves nothing there."""
    return _resolved(raw_path) if len(raw_path) <= PATH_BYTES_MAX else None


@_kept
def _resolved(raw_path: bytes) -> Match | None:
    path = raw_path.decode("latin-1")
    for pattern, row in _PATTERNS:
        found = pattern.fullmatch(path)
        if found is not None:
            return _match(row, found.groupdict())
    return None


def _match(row: Row, segments: dict[str, str]) -> Match:
    name = ""
    for kind in ("topic", "group"):
        if kind in segments:
            # What is not UTF-8 becomes U+FFFD, which no name may hold.
            name = unquote_to_bytes(segments[kind]).decode("utf-8", "replace")
            if limits.NAME_PATTERN.fullmatch(name) is None:
                return Match(row, refusal=(InvalidName, name_rule(kind)))
    if "client_id" in segments:
        return _match_client(row, name, unquote_to_bytes(segments["client_id"]))
    token = segments.get("recall_handle") or segments.get("transaction_id")
    if token is not None:
        token = unquote_to_bytes(token).decode("utf-8", "replace")
        return Match(row, token=token if TOKEN_PATTERN.fullmatch(token) else "")
    queue = segments.get("queue")
    if queue is None:
        return Match(row, name)
    if _QUEUE.fullmatch(queue) is None:
        return Match(row, refusal=(InvalidArgument, "the queue must be a decimal number"))
    return Match(row, name, int(queue))


def _match_client(row: Row, name: str, written: bytes) -> Match:
    try:
        client_id = written.decode()
    except UnicodeDecodeError:
        return Match(row, refusal=(InvalidArgument, "the client id is not UTF-8"))
    if len(client_id) > limits.CLIENT_ID_CHARACTERS_MAX:
        rule = f"a client id has at most {limits.CLIENT_ID_CHARACTERS_MAX} characters"
        return Match(row, refusal=(InvalidArgument, rule))
    return Match(row, name, client_id=client_id)


def name_rule(kind: str) -> str:
    """Return the sentence that tells a caller what a name may be."""
    return (
        f"a {kind} name has 1 to {limits.NAME_CHARACTERS_MAX} characters "
        "of A-Z, a-z, 0-9, '_', '-', '%' and '|'"
    )
