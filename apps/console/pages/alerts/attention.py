"""The part of the overview that says what needs somebody, by itself. Knows no row."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe


@require_safe
@never_cache
def attention(request: HttpRequest) -> HttpResponse:
    """Give the part alone; the overview asks for it again and again."""
    return render(request, "console/alerts/attention.html")
