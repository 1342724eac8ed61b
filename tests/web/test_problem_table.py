"""The table from engine errors to HTTP statuses, and the documents made from it."""

import pytest
from django.test import Client

from apps.core import problems
from apps.core.problems import KINDS, engine_error_classes
from apps.core.statuses import STATUSES, status_of
from apps.engine import errors


@pytest.mark.parametrize("kind", engine_error_classes())
def test_every_engine_error_has_a_status_and_a_page(kind: type[errors.EngineError]) -> None:
    assert 400 <= status_of(kind) <= 599
    assert KINDS[kind.code].status == status_of(kind)
    assert KINDS[kind.code].retriable is kind.retriable
    assert Client().get(f"/problems/{kind.code}").status_code == 200


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in engine_error_classes()]

    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.Refused, 422), (errors.InvalidName, 422), (errors.InvalidArgument, 422),
        (errors.UnknownTopic, 404), (errors.UnknownQueue, 404), (errors.NotPermitted, 403),
        (errors.MessageTooLarge, 413), (errors.BatchTooLarge, 413),
        (errors.MalformedBatch, 422), (errors.ChecksumMismatch, 422),
        (errors.HandleExpired, 410), (errors.InvalidHandle, 422),
        (errors.OffsetOutOfRange, 422), (errors.Unsupported, 501), (errors.Busy, 503),
        (errors.Overloaded, 503), (errors.Stopping, 503), (errors.StoreFull, 507),
        (errors.DelayTooLong, 422), (errors.SequenceTooOld, 409),
        (errors.UnknownTransaction, 404), (errors.TransactionDecided, 409),
        (errors.StoreLocked, 500), (errors.UnknownFormat, 500), (errors.SyncFailed, 500),
    ],
)  # fmt: skip
def test_the_status_is_the_one_of_the_contract(kind: type[errors.EngineError], status: int) -> None:
    assert status_of(kind) == status


def test_the_table_names_no_class_twice_by_inheritance_alone() -> None:
    for kind, status in STATUSES.items():
        inherited = [STATUSES[parent] for parent in kind.__mro__[1:] if parent in STATUSES]
        assert kind in (errors.EngineError, errors.CannotOpen, errors.Damaged) or (
            inherited[0] != status
        )


def test_a_client_error_is_never_retriable_by_mistake() -> None:
    for kind in KINDS.values():
        if kind.status in (400, 404, 410, 413, 415, 422):
            assert not kind.retriable, kind


def test_a_document_has_every_member_of_the_contract() -> None:
    error = errors.UnknownTopic("there is no topic 'x'")

    document = problems.problem_of_error(error, request_id="r1")

    assert document == {
        "type": "/problems/unknown_topic",
        "title": "Unknown topic",
        "status": 404,
        "detail": "there is no topic 'x'",
        "code": "unknown_topic",
        "retriable": False,
        "request_id": "r1",
        "errors": [],
    }


def test_an_error_without_a_text_is_explained_by_its_meaning() -> None:
    document = problems.problem_of_error(errors.StoreFull(), request_id="r1")

    assert document["detail"] == errors.StoreFull.__doc__
