"""Pages that are made of rows alone: they are there also while no engine is. Knows no row.

Everything such a page shows comes from the database, so it says itself of when it is; of the
picture it takes what every page says of the clockwork, where there is one.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.console.pages.common import Page, Told, led_back, posted_for
from apps.console.refusals import refusal_text, sentence_of
from apps.core.exceptions import ProblemError
from apps.engine.errors import EngineError


def rows_page(describe: Callable[..., Page | HttpResponse]) -> Callable[..., HttpResponse]:
    """Make a Django view of a function that describes a page by the request and its address.

    It may give an answer of its own, such as a file. What is not there becomes a page with 404.
    """

    @require_safe
    @never_cache
    @wraps(describe)
    def view(request: HttpRequest, **parts: Any) -> HttpResponse:  # An address has numbers, too.
        try:
            found = describe(request, **parts)
        except ProblemError as refusal:
            if refusal.kind.status != 404:
                raise
            values = {"trouble": str(refusal)}
            found = Page(template="console/lists/missing.html", values=values, status=404)
        return found if isinstance(found, HttpResponse) else rendered(request, found)

    return view


def rows_action(act: Callable[..., Told | Page]) -> Callable[..., HttpResponse]:
    """Make a Django view of a function that does what a button says.

    What came of it leads back to a page and is told there once. Where something was entered that
    is refused, it gives the page again with what was entered.
    """

    @require_POST
    @never_cache
    @wraps(act)
    def view(request: HttpRequest, **parts: Any) -> HttpResponse:  # An address has numbers, too.
        found = act(request, **parts)
        return rendered(request, found) if isinstance(found, Page) else led_back(request, found)

    return view


def tried(act: Callable[[], Told], *, back: str) -> Told:
    """Return what came of an act; where it is refused, why, and the way back."""
    try:
        return act()
    except ProblemError as refusal:
        return Told(text=said(refusal), back=back, is_good=False)


def taken(form: Form, act: Callable[[], Told], *, again: Callable[..., Page]) -> Told | Page:
    """Return what came of an act with what was entered; where that is refused, its page again.

    `again` describes the page of a form, and takes the status of the answer.
    """
    if form.is_valid():
        try:
            return act()
        except (ProblemError, EngineError) as refusal:
            form.add_error(None, said(refusal))
    return again(form, status=422)


def rendered(request: HttpRequest, page: Page) -> HttpResponse:
    """Return a page as an answer."""
    posted = posted_for(request)
    values = {**page.values, "snapshot": None if posted is None else posted.snapshot}
    return render(request, page.template, values, status=page.status)


def said(refusal: EngineError | ProblemError) -> str:
    """Return a sentence about what was not done."""
    if isinstance(refusal, EngineError):
        return refusal_text(refusal)
    return sentence_of(refusal)
