"""What every page of the console does alike. Knows the board, and what to say when it is empty."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.access.asking import sight_of
from apps.console.board import Posted, board

RETRY_AFTER_S = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a page is before it is rendered."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)  # A template takes values of any type.
    status: int = 200


def console_page(describe: Callable[..., Page]) -> Callable[..., HttpResponse]:
    """Make a Django view of a function that describes a page of the newest picture.

    The function is given the post, as far as whoever looks may see it, and the parts of the
    address. Without an open engine it is not
    asked, and the answer is a page that says so, with status 503.
    """

    @require_safe
    @never_cache
    @wraps(describe)
    def view(request: HttpRequest, **parts: str) -> HttpResponse:
        return _rendered(request, lambda posted: describe(posted, **parts))

    return view


def asking_page(describe: Callable[..., Page]) -> Callable[..., HttpResponse]:
    """Make a Django view of a function that looks up more than a picture holds.

    It is given the request as well, for what is searched; it may ask engine and database, once for
    each time somebody looks.
    """

    @require_safe
    @never_cache
    @wraps(describe)
    def view(request: HttpRequest, **parts: Any) -> HttpResponse:  # An address has numbers, too.
        return _rendered(request, lambda posted: describe(posted, request, **parts))

    return view


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What came of a button: a sentence for whoever pressed it, and where to go on."""

    text: str
    back: str
    is_good: bool = True


def console_action(act: Callable[..., Told]) -> Callable[..., HttpResponse]:
    """Make a Django view of a function that does what a button says.

    The answer leads back to a page, which shows the sentence once; so reloading it does nothing
    twice. What the engine refuses is such a sentence as well.
    """

    @require_POST
    @never_cache
    @wraps(act)
    def view(request: HttpRequest, **parts: Any) -> HttpResponse:  # An address has numbers, too.
        return led_back(request, act(request, **parts))

    # By this a test finds every action, and asks what becomes of it in the audit log.
    view.is_action = True  # type: ignore[attr-defined]
    return view


def led_back(request: HttpRequest, told: Told) -> HttpResponse:
    """Return the answer that leads back to a page, which tells once what came of a button."""
    level = messages.SUCCESS if told.is_good else messages.ERROR
    messages.add_message(request, level, told.text)
    return HttpResponseRedirect(told.back, status=303)


def posted_for(request: HttpRequest) -> Posted | None:
    """Return the newest picture as far as whoever looks may see it; None without an engine."""
    posted = board.latest()
    return None if posted is None else posted.seen_by(sight_of(request))


def _rendered(request: HttpRequest, describe: Callable[[Posted], Page]) -> HttpResponse:
    posted = posted_for(request)
    if posted is None:
        return no_engine(request)

    page = describe(posted)

    values = {**page.values, "posted": posted, "snapshot": posted.snapshot}
    return render(request, page.template, values, status=page.status)


def no_engine(request: HttpRequest) -> HttpResponse:
    """Say that no engine is open in this process; the page asks again by itself."""
    answer = render(request, "console/no_engine.html", status=503)
    answer["Retry-After"] = str(RETRY_AFTER_S)
    return answer
