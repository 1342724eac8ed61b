"""The browsable API description, with a content security policy that Swagger UI can live under."""

from typing import Any

from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core.middleware import CONTENT_SECURITY_POLICY

# Swagger UI styles its elements in place; scripts still come from our own files only.
_POLICY = f"{CONTENT_SECURITY_POLICY}; style-src 'self' 'unsafe-inline'"


class ApiDocsView(SpectacularSwaggerSplitView):
    """Swagger UI from the package's own files; its script has an address of its own."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Serve the page, or its script."""
        response: Response = super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]
        response.headers["Content-Security-Policy"] = _POLICY
        return response
