"""Filters that say what rows hold in the viewer's language. They know the words alone."""

from django import template

from apps.console import state_words, stored_words
from apps.console.templatetags.mq import UNKNOWN
from apps.core.phrases import read

register = template.Library()


@register.filter
def state(word: str | None) -> str:
    """Return what a state is called; the dash where it is unknown."""
    return str(state_words.state(word)) if word else UNKNOWN


@register.filter
def stored(text: str | None) -> str:
    """Return a sentence of a row; the dash where there is none."""
    return str(stored_words.stored(text)) if text else UNKNOWN


@register.filter
def in_words(text: object) -> str:
    """Return a sentence of ours that knows its phrase."""
    return read(text)
