"""What every page of the console does alike. Knows the board, and what to say when it is empty."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from apps.console.board import board

RETRY_AFTER_S = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a page is before it is rendered."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)  # A template takes values of any type.
    status: int = 200


def console_page(describe: Callable[..., Page]) -> Callable[..., HttpResponse]:
    """Make a Django view of a function that describes a page of the newest picture.

    The function is given the post and the parts of the address. Without an open engine it is not
    asked, and the answer is a page that says so, with status 503.
    """

    @require_safe
    @never_cache
    @wraps(describe)
    def view(request: HttpRequest, **parts: str) -> HttpResponse:
        posted = board.latest()
        if posted is None:
            return no_engine(request)

        page = describe(posted, **parts)

        values = {**page.values, "posted": posted, "snapshot": posted.snapshot}
        return render(request, page.template, values, status=page.status)

    return view


def no_engine(request: HttpRequest) -> HttpResponse:
    """Say that no engine is open in this process; the page asks again by itself."""
    answer = render(request, "console/no_engine.html", status=503)
    answer["Retry-After"] = str(RETRY_AFTER_S)
    return answer
