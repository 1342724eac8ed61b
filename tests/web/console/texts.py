"""Pictures with their phrases put into words, as whoever looks reads them."""

from typing import Any

from django.utils import translation

from apps.core.phrases import Phrase


def worded(value: Any, language: str = "en") -> Any:
    """Return a picture, or a part of one, with texts for phrases."""
    with translation.override(language):
        return _worded(value)


def _worded(value: Any) -> Any:
    if isinstance(value, Phrase):
        return str(value)
    if isinstance(value, dict):
        return {name: _worded(below) for name, below in value.items()}
    return [_worded(below) for below in value] if isinstance(value, list) else value
