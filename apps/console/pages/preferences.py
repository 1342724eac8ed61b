"""The form at the foot of every page, and the page of it. Changes nothing but cookies."""

from datetime import UTC

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from apps.console.preferences import keep_language, keep_theme, keep_zone, theme_named
from apps.core.languages import chosen_language
from apps.core.moments import moment
from apps.core.zones import name_of, names_by_region, offset_text, zone_named
from apps.engine.clock import SystemClock


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def prefer(request: HttpRequest) -> HttpResponse:
    """Show every choice there is; or keep what was chosen and lead back to where that was."""
    return _kept(request) if request.method == "POST" else _choices(request)


def _kept(request: HttpRequest) -> HttpResponse:
    # What a form does not name stays as it is.
    answer = HttpResponseRedirect(_back(request.POST.get("back", "")), status=303)
    if "theme" in request.POST:
        keep_theme(answer, theme_named(request.POST["theme"]))
    if "language" in request.POST:
        keep_language(answer, chosen_language(request.POST["language"]))
    if "zone" in request.POST:
        keep_zone(answer, name_of(zone_named(request.POST["zone"])))
    return answer


def _choices(request: HttpRequest) -> HttpResponse:
    now = moment(SystemClock().wall_ms())
    regions = [
        (region, [(name, offset_text(now.astimezone(zone_named(name)))) for name in names])
        for region, names in names_by_region().items()
    ]
    values = {
        "regions": regions,
        "now": now.astimezone(UTC).isoformat(),
        "back": _back(request.GET.get("back", "")),
    }
    return render(request, "console/preferences.html", values)


def _back(asked: str) -> str:
    # A form of another site must not lead anybody elsewhere by our address.
    is_ours = url_has_allowed_host_and_scheme(asked, allowed_hosts=None)
    return asked if is_ours and asked.startswith("/") else "/"
