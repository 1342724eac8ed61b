"""REST view of the clockwork: call one selector, translate back."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.clockwork import selectors
from apps.clockwork.api.serializers import ClockworkDocument, rendered
from apps.core.schema import PROBLEM_RESPONSES


class ClockworkView(APIView):
    """The clockwork."""

    @extend_schema(
        operation_id="get_clockwork",
        responses={200: ClockworkDocument, **PROBLEM_RESPONSES},
        tags=["clockwork"],
    )
    def get(self, _request: Request) -> Response:
        """Return tasks, processes and the newest runs, and whether anything moves."""
        return Response(rendered(selectors.clockwork()))
