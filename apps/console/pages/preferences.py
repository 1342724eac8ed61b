"""The form at the foot of every page. Knows preferences; changes nothing but cookies."""

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from apps.console.preferences import keep_theme, theme_named


@require_POST
@never_cache
def prefer(request: HttpRequest) -> HttpResponse:
    """Keep what was chosen and lead back to the page it was chosen on."""
    answer = HttpResponseRedirect(_back(request), status=303)
    keep_theme(answer, theme_named(request.POST.get("theme", "")))
    return answer


def _back(request: HttpRequest) -> str:
    # A form of another site must not lead anybody elsewhere by our address.
    back = request.POST.get("back", "")
    is_ours = url_has_allowed_host_and_scheme(back, allowed_hosts=None)
    return back if is_ours and back.startswith("/") else "/"
