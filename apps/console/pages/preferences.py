"""The form at the foot of every page, and the page of it. Changes nothing but cookies."""

from datetime import UTC
from functools import lru_cache

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

# Clocks are put forward and back on a quarter of an hour.
_OFFSETS_HOLD_MS = 15 * 60 * 1000


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
    now_ms = SystemClock().wall_ms()
    values = {
        "regions": _offsets(now_ms // _OFFSETS_HOLD_MS),
        "now": moment(now_ms).astimezone(UTC).isoformat(),
        "back": _back(request.GET.get("back", "")),
    }
    return render(request, "console/preferences.html", values)


@lru_cache(maxsize=1)
def _offsets(spell: int) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return every zone by region with how far it is from UTC in one spell of time.

    Reading 400 zones takes 60 ms; keeping them would take the memory of a page few ever look at.
    """
    at = moment(spell * _OFFSETS_HOLD_MS)
    return [
        (region, [(name, offset_text(at.astimezone(zone_named(name)))) for name in names])
        for region, names in names_by_region().items()
    ]


def _back(asked: str) -> str:
    # A form of another site must not lead anybody elsewhere by our address.
    is_ours = url_has_allowed_host_and_scheme(asked, allowed_hosts=None)
    return asked if is_ours and asked.startswith("/") else "/"
