"""The error tree: codes, what a proxy's bare status becomes, and what is known of the outcome."""

import json

import mqclient
import pytest
from mqclient import errors
from mqclient.protocol.calls import problem_of
from mqclient.wire.http1 import Response


def response(status: int, document: object, **headers: str) -> Response:
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    made = Response(status, {b"content-type": b"application/problem+json", **named}, True)
    made.body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return made


def test_every_error_has_its_own_code() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.MqError)
    ]

    assert len({kind.code for kind in kinds}) == len(kinds) == len(errors.BY_CODE)


def test_the_drawn_tree_names_every_error() -> None:
    drawn = errors.__doc__ or ""

    assert [kind.__name__ for kind in errors.BY_CODE.values() if kind.__name__ not in drawn] == []


def test_a_problem_document_becomes_the_error_of_its_code() -> None:
    document = {
        "code": "store_full", "detail": "no room", "retriable": True, "request_id": "r7",
    }  # fmt: skip

    error = problem_of(response(507, document, retry_after="2"))

    assert type(error) is errors.StoreFull
    assert str(error) == "no room"
    assert (error.retriable, error.status, error.request_id) == (True, 507, "r7")
    assert error.retry_after_s == 2.0
    assert error.outcome == "failed"


def test_an_unknown_code_keeps_its_name_and_takes_the_class_of_the_status() -> None:
    error = problem_of(response(410, {"code": "gone_fishing", "retriable": False}))

    assert type(error) is errors.HandleExpired
    assert error.problem_code == "gone_fishing"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"\xff", b'{"code": 7}'])
@pytest.mark.parametrize(
    ("status", "kind", "retriable", "outcome"),
    [
        (400, errors.Refused, False, "failed"),
        (401, errors.Unauthenticated, False, "failed"),
        (404, errors.NotFound, False, "failed"),
        (429, errors.TooManyRequests, True, "failed"),
        (500, errors.ServerFailed, False, "unknown"),
        (502, errors.ServerFailed, True, "unknown"),
        (503, errors.Busy, True, "failed"),
        (504, errors.ServerFailed, True, "unknown"),
    ],
)
def test_an_answer_without_a_document_is_judged_by_its_status(
    body: bytes, status: int, kind: type[errors.MqError], retriable: bool, outcome: str
) -> None:
    error = problem_of(response(status, body))

    assert type(error) is kind
    assert (error.retriable, error.outcome) == (retriable, outcome)


def test_public_names_are_sorted_and_complete() -> None:
    public = {
        name
        for name, value in vars(mqclient).items()
        if not name.startswith("_") and not isinstance(value, type(mqclient))
    }

    assert mqclient.__all__ == sorted(mqclient.__all__)
    assert set(mqclient.__all__) == public


def test_every_error_is_public() -> None:
    missing = {kind.__name__ for kind in errors.BY_CODE.values()} - set(mqclient.__all__)

    assert missing == set()
