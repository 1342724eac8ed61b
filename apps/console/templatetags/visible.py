"""A filter for text that anybody wrote: what a reader would not see, or would be led by, is shown.

Pure. Escaping stays with the template.
"""

import re

from django import template

register = template.Library()

# The pictures of control characters begin here; DEL has its own.
_PICTURES = 0x2400
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
# Marks that turn or hide the text around them, and line breaks that are none in a file.
_UNSEEN = re.compile(
    "[\u0080-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


@register.filter
def visible(value: object) -> str:
    """Return a text whose control characters are pictures, and whose hidden marks are named.

    Tabs and line feeds stay.
    """
    text = "" if value is None else str(value)
    text = _CONTROL.sub(_picture, text)
    return _UNSEEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


@register.filter
def in_line(value: object) -> str:
    """Return what `visible` does, in one line."""
    return visible(value).replace("\n", "\u240a").replace("\t", " ")


def _picture(found: "re.Match[str]") -> str:
    number = ord(found[0])
    return "\u2421" if number == 0x7F else chr(_PICTURES + number)
