"""The admin's site: who comes in, and where passwords are changed. Knows the table of rights."""

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponseRedirect

from apps.access import asking
from apps.access.reaching import reach


class DecidedSite(AdminSite):
    """The admin for whoever its first page is for; what is in it is decided model by model."""

    def has_permission(self, request: HttpRequest) -> bool:
        """Say whether whoever asks comes in; `is_staff` counts only while access is off."""
        if not asking.is_on():
            return super().has_permission(request)
        return request.user.is_active and reach(request, "GET", "/admin/").is_allowed

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Lead to the page of one's account, whose form ends other sessions and is written down."""
        if asking.is_on():
            return HttpResponseRedirect("/account")
        return super().password_change(request, extra_context)
