"""Tags that say in which language and time zone a page is. They need no request."""

import json

from django import template
from django.utils import timezone
from django.utils.translation import get_language

from apps.console.words import words_of_scripts
from apps.core.languages import DEFAULT, chosen_language
from apps.core.zones import name_of

register = template.Library()


@register.simple_tag
def page_language() -> str:
    """Return the language of the page as `lang` has it."""
    return (chosen_language(get_language() or "") or DEFAULT).tag


@register.simple_tag
def page_zone() -> str:
    """Return the name of the time zone that moments are shown in."""
    return name_of(timezone.get_current_timezone())


@register.simple_tag
def script_words() -> str:
    """Return the words that scripts put on the page, as JSON for an attribute."""
    return json.dumps(words_of_scripts(), ensure_ascii=False, separators=(",", ":"))
