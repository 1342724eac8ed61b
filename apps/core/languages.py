"""Languages of pages, and which of them a viewer reads. Knows cookies and headers; no page.

Programs are answered in English: what the API says is the same for everybody.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from django.http import HttpRequest, parse_cookie
from django.utils.translation.trans_real import parse_accept_lang_header

LANGUAGE_COOKIE = "mqweb_language"

Scope = Mapping[str, Any]  # An ASGI scope: its shape depends on the protocol.


class Language(StrEnum):
    """A language that pages are written in; the value is Django's code for it."""

    ENGLISH = "en"
    CHINESE = "zh-hans"

    @property
    def tag(self) -> str:
        """Return the name by BCP 47, for `lang` and `Content-Language`."""
        return _TAGS[self]

    @property
    def own_name(self) -> str:
        """Return what those who read it call it."""
        return _OWN_NAMES[self]


_TAGS = {Language.ENGLISH: "en", Language.CHINESE: "zh-Hans"}
_OWN_NAMES = {Language.ENGLISH: "English", Language.CHINESE: "简体中文"}
# Whoever reads any Chinese is better served by this one than by English.
_BY_FIRST_SUBTAG = {"en": Language.ENGLISH, "zh": Language.CHINESE}

DEFAULT = Language.ENGLISH


def language_of(asked: HttpRequest | Scope) -> Language:
    """Return the language of whoever sent a request, or the handshake of a socket.

    What was chosen on a page goes before what the browser prefers; who says neither reads English.
    """
    # A request of the API's framework is like one of Django, and is none.
    if not isinstance(asked, Mapping):
        cookie = asked.COOKIES.get(LANGUAGE_COOKIE, "")
        accepted = asked.headers.get("Accept-Language", "")
        return chosen_language(cookie) or accepted_language(accepted)
    fields = dict(asked["headers"])
    cookies = parse_cookie(fields.get(b"cookie", b"").decode("latin-1"))
    accepted = fields.get(b"accept-language", b"").decode("latin-1")
    return chosen_language(cookies.get(LANGUAGE_COOKIE, "")) or accepted_language(accepted)


def chosen_language(name: str) -> Language | None:
    """Return the language that a cookie or a form names; None for anything else."""
    try:
        return Language(name)
    except ValueError:
        return None


def accepted_language(header: str) -> Language:
    """Return the first of our languages in an Accept-Language header; else the default."""
    for accepted, _ in parse_accept_lang_header(header):
        found = _BY_FIRST_SUBTAG.get(accepted.partition("-")[0])
        if found is not None:
            return found
    return DEFAULT
