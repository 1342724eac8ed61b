"""One OpenAPI document for both planes."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from drf_spectacular.validation import validate_schema

from apps.doors.http import openapi
from apps.doors.http.routing import ROWS
from mqweb.openapi import add_data_plane


@pytest.fixture(scope="module")
def document() -> Any:
    """Return the document as it is served."""
    answer = Client().get("/api/schema/", headers={"accept": "application/json"})
    assert answer.status_code == 200
    return answer.json()


def test_it_is_valid_openapi_3_1(document: Any) -> None:
    assert document["openapi"].startswith("3.1")
    validate_schema(document)  # type: ignore[no-untyped-call]


def test_every_row_of_the_data_plane_is_in_it(document: Any) -> None:
    wanted = {row.path for row in ROWS if row.path.startswith("/api/")}

    assert len(wanted) >= 20
    assert wanted <= set(document["paths"])


def test_every_row_of_the_control_plane_is_in_it(document: Any) -> None:
    wanted = {
        "/api/v1/topics": {"get"},
        "/api/v1/topics/{topic}": {"get", "put", "delete"},
        "/api/v1/groups": {"get"},
        "/api/v1/groups/{group}": {"get", "put"},
        "/api/v1/groups/{group}/rebalances": {"get"},
        "/api/v1/groups/{group}/blocked": {"get"},
        "/api/v1/locks": {"get"},
        "/api/v1/locks/{lock}/transitions": {"get"},
        "/api/v1/locks/{lock}:release": {"post"},
        "/api/v1/groups/{group}/offsets": {"get"},
        "/api/v1/groups/{group}/lag": {"get"},
        "/api/v1/groups/{group}/dead-letters": {"get"},
        "/api/v1/groups/{group}/dead-letters/{letter}": {"get"},
        "/api/v1/groups/{group}/dead-letters:resend": {"post"},
        "/api/v1/groups/{group}/dead-letters:discard": {"post"},
        "/api/v1/groups/{group}/dead-letters:export": {"get"},
        "/api/v1/jobs": {"get"},
        "/api/v1/jobs/{job}": {"get"},
        "/api/v1/jobs/{job}:cancel": {"post"},
        "/api/v1/clockwork": {"get"},
        "/api/v1/audit": {"get"},
        "/api/v1/audit/{number}": {"get"},
        "/api/v1/audit:export": {"get"},
        "/api/v1/alerts": {"get"},
        "/api/v1/alerts/{alert}": {"get"},
        "/api/v1/alerts/{alert}:acknowledge": {"post"},
        "/api/v1/alert-rules": {"get", "post"},
        "/api/v1/alert-rules/{rule}": {"get", "put", "delete"},
        "/api/v1/silences": {"get", "post"},
        "/api/v1/silences/{silence}:end": {"post"},
        "/api/v1/alert-channels": {"get", "post"},
        "/api/v1/alert-channels/{channel}": {"get", "put", "delete"},
        "/api/v1/alert-channels/{channel}:test": {"post"},
        "/api/v1/alert-channels/{channel}/deliveries": {"get"},
        "/api/v1/delayed": {"get"},
        "/api/v1/delayed/levels": {"get"},
        "/api/v1/delayed/status": {"get"},
        "/api/v1/transactions": {"get"},
        "/api/v1/transactions/status": {"get"},
        "/api/v1/transactions/{transaction_id}:check-now": {"post"},
    }

    for path, methods in wanted.items():
        assert methods <= set(document["paths"][path]), path


def test_the_internal_door_is_not_in_it(document: Any) -> None:
    assert not [path for path in document["paths"] if "internal" in path]


def test_every_reference_leads_somewhere(document: Any) -> None:
    for reference in set(references(document)):
        found = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        assert found


def test_every_operation_has_a_name_of_its_own(document: Any) -> None:
    names = [
        operation["operationId"]
        for operations in document["paths"].values()
        for method, operation in operations.items()
        if method in ("get", "put", "post", "delete", "head")
    ]

    assert len(names) == len(set(names))


def test_a_row_described_by_both_planes_is_refused() -> None:
    path, operations = next(iter(openapi.paths().items()))

    with pytest.raises(ValueError, match="described twice"):
        add_data_plane({"paths": {path: dict(operations)}})


def test_the_browsable_page_runs_no_script_of_its_own() -> None:
    answer = Client().get("/api/docs/")

    page = answer.content.decode()
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 3
    assert all("src=" in attributes and not body.strip() for attributes, body in scripts)
    assert "http://" not in page
    assert "https://" not in page


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for below in node.values():
            yield from references(below)
    elif isinstance(node, list):
        for below in node:
            yield from references(below)
