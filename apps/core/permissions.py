"""Who may call the control plane. Closed unless the server was started for its own machine only."""

from typing import TYPE_CHECKING

from django.conf import settings
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

if TYPE_CHECKING:
    # DRF loads this module while it loads its views.
    from rest_framework.views import APIView


class OpenOnLoopback(BasePermission):
    """Allow everyone while authentication is off, which settings permit on loopback only."""

    def has_permission(self, _request: Request, _view: "APIView") -> bool:
        """Say whether the request may go on."""
        return bool(settings.MQWEB.auth == "off")
