"""How a viewer wants pages to look. Knows cookies; no account and no page.

What was chosen stays in the browser: it is nobody else's business, and holds without an account.
"""

from enum import StrEnum

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from apps.core.languages import LANGUAGE_COOKIE, Language, language_of
from apps.core.zones import ZONE_COOKIE, name_of, zone_of

THEME_COOKIE = "mqweb_theme"
_KEPT_S = 365 * 24 * 3600


class Theme(StrEnum):
    """Colours of pages; those of the system follow what the browser says."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"

    @property
    def label(self) -> Promise:
        """Return what a viewer chooses it by."""
        return _LABELS[self]


_LABELS: dict[Theme, Promise] = {
    Theme.SYSTEM: gettext_lazy("the system's"),
    Theme.LIGHT: gettext_lazy("light"),
    Theme.DARK: gettext_lazy("dark"),
}


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
    _keep(answer, THEME_COOKIE, theme.value)


def keep_language(answer: HttpResponse, language: Language | None) -> None:
    """Have the browser remember a language for a year; None has it say what it prefers again."""
    _keep(answer, LANGUAGE_COOKIE, None if language is None else language.value)


def keep_zone(answer: HttpResponse, name: str) -> None:
    """Have the browser remember a time zone for a year."""
    _keep(answer, ZONE_COOKIE, name)


def _keep(answer: HttpResponse, cookie: str, value: str | None) -> None:
    if value is None:
        answer.delete_cookie(cookie, samesite="Lax")
        return
    answer.set_cookie(
        cookie,
        value,
        max_age=_KEPT_S,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def shown(request: HttpRequest) -> dict[str, object]:
    """Return what every template knows of preferences: a context processor."""
    return {
        "theme": theme_of(request),
        "themes": list(Theme),
        "language": language_of(request),
        "languages": list(Language),
        "zone": name_of(zone_of(request)),
    }
