"""Refusals of addresses that answer with something else than JSON. Knows the document's words."""

from typing import Any

from apps.core.schema import PROBLEM_RESPONSES


def problems_as_json() -> dict[Any, Any]:
    """Return the responses of all problems, in JSON alone."""
    return {(code, "application/json"): shape for code, shape in PROBLEM_RESPONSES.items()}
