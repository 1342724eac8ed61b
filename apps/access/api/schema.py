"""How the OpenAPI document says who may ask: a token, or a session of the console."""

from typing import TYPE_CHECKING, Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension

if TYPE_CHECKING:
    from drf_spectacular.openapi import AutoSchema


class AsDecidedScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Both ways in; with `MQWEB_AUTH=off` neither is needed."""

    target_class = "apps.access.api.permissions.AsDecided"
    name = ["bearer", "session"]

    def get_security_definition(self, auto_schema: "AutoSchema") -> Any:
        """Return the `securitySchemes` of both."""
        del auto_schema
        return [
            {"type": "http", "scheme": "bearer", "description": "A token, `mqt_…`."},
            {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME},
        ]
