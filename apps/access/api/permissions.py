"""How DRF hears what the middleware has decided: closed unless it says that it let somebody in."""

from typing import TYPE_CHECKING

from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.access import asking

if TYPE_CHECKING:
    # DRF loads this module while it loads its views.
    from rest_framework.views import APIView


class AsDecided(BaseAuthentication):
    """Take the account the middleware has found; None for nobody."""

    def authenticate(self, request: Request) -> tuple[object, None] | None:
        """Return the account of a request."""
        user = getattr(request._request, "user", None)
        return None if user is None or not user.is_authenticated else (user, None)

    def authenticate_header(self, _request: Request) -> str:
        """Return what a 401 of DRF's own asks for."""
        return 'Bearer realm="mqweb"'


class Decided(BasePermission):
    """Allow what came past the decision, and everybody while access is off."""

    def has_permission(self, request: Request, _view: "APIView") -> bool:
        """Say whether the request may go on."""
        if not asking.is_on():
            return True
        return asking.access_of(request._request).rights is not None
