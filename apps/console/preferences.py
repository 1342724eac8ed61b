"""How a viewer wants pages to look. Knows cookies; no account and no page.

What was chosen stays in the browser: it is nobody else's business, and holds without an account.
"""

from enum import StrEnum

from django.conf import settings
from django.http import HttpRequest, HttpResponse

THEME_COOKIE = "mqweb_theme"
_KEPT_S = 365 * 24 * 3600


class Theme(StrEnum):
    """Colours of pages; those of the system follow what the browser says."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


def theme_of(request: HttpRequest) -> Theme:
    """Return the colours that were chosen; anything unknown is the system's."""
    return theme_named(request.COOKIES.get(THEME_COOKIE, ""))


def theme_named(name: str) -> Theme:
    """Return a theme by its name; anything unknown is the system's."""
    try:
        return Theme(name)
    except ValueError:
        return Theme.SYSTEM


def keep_theme(answer: HttpResponse, theme: Theme) -> None:
    """Have the browser remember a theme for a year."""
    answer.set_cookie(
        THEME_COOKIE,
        theme.value,
        max_age=_KEPT_S,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def shown(request: HttpRequest) -> dict[str, object]:
    """Return what every template knows of preferences: a context processor."""
    return {"theme": theme_of(request), "themes": list(Theme)}
