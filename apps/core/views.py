"""Pages about problems: what each code means, at the address its `type` gives."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from apps.core import problems


def problem_list(request: HttpRequest) -> HttpResponse:
    """List every problem code."""
    kinds = sorted(problems.KINDS.values(), key=lambda kind: (kind.status, kind.code))
    return render(request, "core/problems.html", {"kinds": kinds})


def problem_detail(request: HttpRequest, code: str) -> HttpResponse:
    """Explain one problem code; 404 for an unknown one."""
    kind = problems.KINDS.get(code)
    if kind is None:
        raise Http404
    return render(request, "core/problems.html", {"kinds": [kind], "single": True})
