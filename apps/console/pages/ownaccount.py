"""The pages of one's own account: sessions, password, second factor. Knows services; no right.

A secret and recovery codes are on the pages that answer their making, and on no other.
"""

import io

import segno
from django.conf import settings
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from apps.access import asking, factors, sessions, signing
from apps.console.pages import signin
from apps.console.pages.common import Told, console_action, led_back
from apps.console.pages.sessionrows import session_row
from apps.console.refusals import not_done, refusal_text
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.core.pagination import rfc3339_or_none
from apps.engine.errors import EngineError

HOME = "/account"
FACTOR = "/account/second-factor"
_SECRET_CHARACTERS_MAX = 1024


@require_safe
@never_cache
def own_account(request: HttpRequest) -> HttpResponse:
    """Show where one is signed in, and the forms that end sessions and set the password."""
    if not asking.is_on():
        return render(request, "console/access/own_account.html", {"is_off": True})
    user = _user(request)
    key = request.session.session_key
    rows = [session_row(row, key) for row in sessions.of_account(user)]
    values = {
        "sessions": rows,
        "others": sum(not row["is_this"] for row in rows),
        "factor": factors.is_on(user),
        "idle_s": settings.MQWEB.session.idle_ms_max // 1_000,
        "whole_s": settings.MQWEB.session.age_ms_max // 1_000,
    }
    return render(request, "console/access/own_account.html", values)


@console_action
def end_session(request: HttpRequest, *, number: int) -> Told:
    """End one of one's own sessions; this one as well."""
    try:
        sessions.end_one(user=_user(request), number=number, by=actor_of(request))
    except ProblemError as refusal:
        return Told(text=not_done(refusal), back=HOME, is_good=False)
    return Told(text=gettext("The session has ended."), back=HOME)


@console_action
def end_others(request: HttpRequest) -> Told:
    """End all of one's own sessions but this one."""
    key = request.session.session_key or ""
    count = sessions.end_all(user=_user(request), by=actor_of(request), but=key)
    text = ngettext("%(count)d session has ended.", "%(count)d sessions have ended.", count)
    return Told(text=text % {"count": count}, back=HOME)


@console_action
@sensitive_post_parameters("password", "new_password")
def change_password(request: HttpRequest) -> Told:
    """Set one's own password, for who knows the old one; all other sessions end."""
    user = _user(request)
    if trouble := _wrong_password(request, user):
        return Told(text=trouble, back=HOME, is_good=False)
    new = request.POST.get("new_password", "")
    if not 0 < len(new) <= _SECRET_CHARACTERS_MAX:
        return Told(text=gettext("Give a new password."), back=HOME, is_good=False)
    try:
        sessions.change_own_password(request=request, user=user, password=new, by=actor_of(request))
    except EngineError as error:
        return Told(text=refusal_text(error), back=HOME, is_good=False)
    return Told(text=gettext("The password is set; your other sessions have ended."), back=HOME)


@require_safe
@never_cache
def second_factor(request: HttpRequest) -> HttpResponse:
    """Show the second factor: how to set it up, or what can be done about it."""
    if not asking.is_on():
        return HttpResponseRedirect(HOME)
    return _factor_page(request, _user(request))


@require_safe
@never_cache
def second_factor_picture(request: HttpRequest) -> HttpResponse:
    """Return the link that sets up an app as a QR code, as long as it is not confirmed."""
    found = factors.of(_user(request)) if asking.is_on() else None
    if found is None or found.confirmed_at is not None:
        raise Http404
    picture = io.BytesIO()
    code = segno.make(factors.set_up_of(found).link, error="m")
    code.save(picture, kind="svg", scale=4, border=4, light="#fff", xmldecl=False)
    return HttpResponse(picture.getvalue(), content_type="image/svg+xml")


@console_action
@sensitive_post_parameters("password")
def begin_factor(request: HttpRequest) -> Told:
    """Make a secret, for who knows the password."""
    user = _user(request)
    if trouble := _wrong_password(request, user):
        return Told(text=trouble, back=FACTOR, is_good=False)
    try:
        factors.begin(user)
    except ProblemError as refusal:
        return Told(text=not_done(refusal), back=FACTOR, is_good=False)
    return Told(
        text=gettext("Scan the picture, and give the code that the app shows."), back=FACTOR
    )


@require_POST
@never_cache
@sensitive_post_parameters("code")
def confirm_factor(request: HttpRequest) -> HttpResponse:
    """Turn the second factor on, by a code of it; show the recovery codes, this once."""
    user = _user(request)
    if wait_ms := _wait_ms(request, user):
        return led_back(request, Told(text=signin.too_often(wait_ms), back=FACTOR, is_good=False))
    try:
        codes = factors.confirm(
            user=user,
            code=signin.typed_code(request),
            keeps_session=request.session.session_key or "",
            by=actor_of(request),
        )
    except EngineError as error:
        _note_wrong(request, user)
        return led_back(request, Told(text=refusal_text(error), back=FACTOR, is_good=False))
    except ProblemError as refusal:
        return led_back(request, Told(text=not_done(refusal), back=FACTOR, is_good=False))
    asking.passed_factor(request)
    return _codes_page(request, codes)


@require_POST
@never_cache
@sensitive_post_parameters("password", "code")
def new_codes(request: HttpRequest) -> HttpResponse:
    """Replace the recovery codes, for who knows password and code; show them, this once."""
    user = _user(request)
    if trouble := _not_shown(request, user):
        return led_back(request, Told(text=trouble, back=FACTOR, is_good=False))
    try:
        codes = factors.new_codes(user=user, by=actor_of(request))
    except ProblemError as refusal:
        return led_back(request, Told(text=not_done(refusal), back=FACTOR, is_good=False))
    return _codes_page(request, codes)


@console_action
@sensitive_post_parameters("password", "code")
def turn_off_factor(request: HttpRequest) -> Told:
    """Turn the second factor off, for who knows password and code."""
    user = _user(request)
    if trouble := _not_shown(request, user):
        return Told(text=trouble, back=FACTOR, is_good=False)
    try:
        factors.turn_off(user=user, by=actor_of(request))
    except ProblemError as refusal:
        return Told(text=not_done(refusal), back=FACTOR, is_good=False)
    return Told(text=gettext("You sign in with your password alone from now on."), back=FACTOR)


def _user(request: HttpRequest) -> User:
    try:
        return sessions.account_of(request)
    except ProblemError as refusal:
        raise Http404 from refusal


def _factor_page(request: HttpRequest, user: User) -> HttpResponse:
    found = factors.of(user)
    is_on = found is not None and found.confirmed_at is not None
    values = {
        "is_on": is_on,
        "confirmed_at": rfc3339_or_none(found.confirmed_at) if found and is_on else None,
        "codes_left": factors.left_of(user) if is_on else None,
        "set_up": factors.set_up_of(found) if found is not None and not is_on else None,
        "is_demanded": asking.access_of(request).rights is None,
    }
    return render(request, "console/access/second_factor.html", values)


def _codes_page(request: HttpRequest, codes: list[str]) -> HttpResponse:
    return render(request, "console/access/recovery_codes.html", {"codes": codes})


def _wait_ms(request: HttpRequest, user: User) -> int:
    return signin.failures.wait_ms(user.get_username(), request.META.get("REMOTE_ADDR", ""))


def _note_wrong(request: HttpRequest, user: User) -> None:
    signin.failures.note(user.get_username(), request.META.get("REMOTE_ADDR", ""))


def _wrong_password(request: HttpRequest, user: User) -> str:
    """Return what is told to who does not know the password; an empty text to who does."""
    if wait_ms := _wait_ms(request, user):
        return signin.too_often(wait_ms)
    password = request.POST.get("password", "")
    if 0 < len(password) <= _SECRET_CHARACTERS_MAX and user.check_password(password):
        return ""
    _note_wrong(request, user)
    signing.note_wrong_password(request, user.get_username())
    return gettext("Nothing was done: the password is wrong.")


def _not_shown(request: HttpRequest, user: User) -> str:
    """Return what is told to who does not know password and code; an empty text to who does."""
    if trouble := _wrong_password(request, user):
        return trouble
    if factors.verify(user, signin.typed_code(request)) is not None:
        return ""
    _note_wrong(request, user)
    signing.note_wrong_code(request, user.get_username())
    return gettext("Nothing was done: the code is wrong, was used before, or its time is over.")
