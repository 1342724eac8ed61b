"""Signing in and out. Knows accounts and how often a password may be wrong; no right."""

from django.contrib.auth import authenticate, logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from apps.access import asking, factors, signing
from apps.access.models import AccountSession
from apps.access.throttle import Failures

_NAME_CHARACTERS_MAX = 150
_PASSWORD_CHARACTERS_MAX = 1024
_CODE_CHARACTERS_MAX = 64

failures = Failures(asking.clock)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_post_parameters("password")
def sign_in(request: HttpRequest) -> HttpResponse:
    """Ask for name and password; which of them was wrong is not told."""
    back = _back(request)
    if request.method != "POST":
        return _page(request, back)
    name = request.POST.get("name", "")[:_NAME_CHARACTERS_MAX]
    password = request.POST.get("password", "")
    address = request.META.get("REMOTE_ADDR", "")
    wait_ms = failures.wait_ms(name, address)
    if wait_ms:
        signing.note_too_often(request, name)
        page = _page(request, back, name=name, trouble=too_often(wait_ms), status=429)
        return _told_to_wait(page, wait_ms)
    user = None
    if 0 < len(password) <= _PASSWORD_CHARACTERS_MAX and "\0" not in name:
        user = authenticate(request, username=name, password=password)
    if user is None:
        failures.note(name, address)
        signing.note_wrong_password(request, name)
        trouble = gettext("Name or password is wrong.")
        return _page(request, back, name=name, trouble=trouble, status=401)
    if factors.is_on(user):
        # Wrong codes count as wrong passwords do, so these are forgiven behind the right one.
        signing.await_code(request, user, back)
        return HttpResponseRedirect("/sign-in/code", status=303)
    failures.forgive(name)
    signing.begin_session(request, user)
    return HttpResponseRedirect(back, status=303)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_post_parameters("code")
def sign_in_code(request: HttpRequest) -> HttpResponse:
    """Ask who gave the right password for a code; only then a session begins."""
    found = signing.awaited(request)
    if found is None:
        return HttpResponseRedirect("/sign-in", status=303)
    user, back = found
    if request.method != "POST":
        return _code_page(request)
    name, address = user.get_username(), request.META.get("REMOTE_ADDR", "")
    wait_ms = failures.wait_ms(name, address)
    if wait_ms:
        signing.note_too_often(request, name)
        return _told_to_wait(_code_page(request, trouble=too_often(wait_ms), status=429), wait_ms)
    given = factors.verify(user, typed_code(request))
    if given is None:
        failures.note(name, address)
        signing.note_wrong_code(request, name)
        trouble = gettext("The code is wrong, was used before, or its time is over.")
        return _code_page(request, trouble=trouble, status=401)
    failures.forgive(name)
    signing.begin_session(request, user, factor=given)
    return HttpResponseRedirect(back, status=303)


@require_POST
@never_cache
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session here, in the table, and on the sockets that are open with it."""
    key = request.session.session_key
    logout(request)
    if key:
        AccountSession.objects.filter(session_key=key).delete()
        asking.end_session(key)
    return HttpResponseRedirect("/sign-in", status=303)


def _back(request: HttpRequest) -> str:
    """Return where to go on: an address of ours, or the first page."""
    asked = request.POST.get("next") or request.GET.get("next") or "/"
    is_ours = url_has_allowed_host_and_scheme(
        asked, allowed_hosts=None, require_https=request.is_secure()
    )
    return asked if is_ours and asked.startswith("/") else "/"


def typed_code(request: HttpRequest) -> str:
    """Return the code that somebody typed, as people do: with blanks and in pieces."""
    return "".join(request.POST.get("code", "")[:_CODE_CHARACTERS_MAX].split())


def too_often(wait_ms: int) -> str:
    """Return what is told to somebody who was wrong too often."""
    minutes = max(1, -(-wait_ms // 60_000))
    return ngettext(
        "Too many wrong passwords. Try again in %(minutes)d minute.",
        "Too many wrong passwords. Try again in %(minutes)d minutes.",
        minutes,
    ) % {"minutes": minutes}


def _told_to_wait(answer: HttpResponse, wait_ms: int) -> HttpResponse:
    answer["Retry-After"] = str(max(1, wait_ms // 1000))
    return answer


def _code_page(request: HttpRequest, *, trouble: str = "", status: int = 200) -> HttpResponse:
    return render(request, "console/access/sign_in_code.html", {"trouble": trouble}, status=status)


def _page(
    request: HttpRequest, back: str, *, name: str = "", trouble: str = "", status: int = 200
) -> HttpResponse:
    values = {"next": back, "name": name, "trouble": trouble}
    return render(request, "console/access/sign_in.html", values, status=status)
