"""Addresses of everything Django serves. The data plane's are in `apps.doors.http`."""

from django.contrib import admin
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

from apps.console.pages.signin import sign_out
from mqweb.docs import ApiDocsView

admin.autodiscover()

handler400 = "apps.core.handlers.bad_request"
handler403 = "apps.core.handlers.forbidden"
handler404 = "apps.core.handlers.not_found"
handler500 = "apps.core.handlers.failed"

urlpatterns = [
    # The admin's own would leave open what is open with the session.
    path("admin/logout/", sign_out),
    path("admin/", admin.site.urls),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", ApiDocsView.as_view(url_name="schema"), name="docs"),
    path("api/v1/", include("apps.access.api.urls")),
    path("api/v1/", include("apps.clockwork.api.urls")),
    path("api/v1/", include("apps.audit.api.urls")),
    path("api/v1/", include("apps.topics.api.urls")),
    path("api/v1/", include("apps.groups.api.urls")),
    path("api/v1/", include("apps.delays.api.urls")),
    path("api/v1/", include("apps.transactions.api.urls")),
    path("api/v1/", include("apps.deadletters.api.urls")),
    path("api/v1/", include("apps.metrics.api.urls")),
    path("api/v1/", include("apps.alerts.api.urls")),
    path("api/v1/", include("apps.pipelines.api.urls")),
    path("api/v1/", include("apps.messages.api.urls")),
    path("", include("apps.core.urls")),
    path("", include("apps.console.urls")),
]
