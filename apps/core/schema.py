"""The OpenAPI document: the shape of problems, and rows that Django does not serve itself."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from apps.core.pagination import ITEMS_MAX
from apps.core.problems import MEDIA_TYPE


class ProblemEntry(serializers.Serializer[Any]):
    """One refused value."""

    pointer = serializers.CharField(help_text="JSON pointer (RFC 6901) into the request.")
    detail = serializers.CharField()


class Problem(serializers.Serializer[Any]):
    """A problem document (RFC 9457)."""

    type = serializers.CharField(help_text="Address of a page that explains the code.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField()
    retriable = serializers.BooleanField()
    request_id = serializers.CharField()
    errors = ProblemEntry(many=True)  # type: ignore[assignment]


PROBLEM_RESPONSES = {
    ("4XX", MEDIA_TYPE): OpenApiResponse(Problem, description="The request was refused."),
    ("5XX", MEDIA_TYPE): OpenApiResponse(Problem, description="The server could not carry it out."),
}


def page_parameters(things: str) -> tuple[OpenApiParameter, OpenApiParameter]:
    """Return the parameters that every list of `things` takes."""
    return (
        OpenApiParameter("cursor", str, description="`next_cursor` of the page before"),
        OpenApiParameter("limit", int, description=f"{things} on a page, 1 to {ITEMS_MAX}"),
    )
