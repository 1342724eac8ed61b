"""The texts in our sources that are to be translated. Knows Python and templates; no catalog."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from babel.messages.extract import extract
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("apps", "mqweb", "templates")

MessageId = str | tuple[str, str]
"""A text, or the one for a single thing and the one for several.

One that means something else elsewhere has its context before it, as catalogs have: `CONTEXT_END`.
"""

CONTEXT_END = "\x04"

_KEYWORDS: dict[str, tuple[int | tuple[int, str], ...] | None] = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    # Of apps/core/phrases.py.
    "phrase": None,
    "phrases": (1, 2),
    "phrase_in": ((1, "c"), 2),
    "sentence": None,
    "sentences": (1, 2),
    # Of apps/access/policy/reasons.py.
    "because": None,
}
# What `templatize` leaves of a tag: a call whose arguments are literals, and the word `count`.
_LITERAL = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_CALL = re.compile(rf"\b(gettext|ngettext|pgettext|_)\(({_LITERAL}(?:, {_LITERAL})?)(?:, count)?\)")
_TAG = re.compile(r"{%\s*(?:blocktrans(?:late)?|trans(?:late)?)\b")


class Unreadable(Exception):
    """A template has a tag whose text was not found."""


def texts_of(*folders: str) -> set[MessageId]:
    """Return every text to translate in some folders of ours."""
    found: set[MessageId] = set()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.html")):
            found.update(texts_of_template(path.read_text(), str(path.relative_to(ROOT))))
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                found.update(texts_of_python(path))
    return found


def texts_of_python(path: Path) -> Iterator[MessageId]:
    """Yield the texts that a Python file asks gettext for."""
    with path.open("rb") as file:
        for _, text, _, context in extract("python", file, keywords=_KEYWORDS):
            if isinstance(text, str):
                yield f"{context}{CONTEXT_END}{text}" if context else text
            else:
                yield text[0], text[1]


def texts_of_template(source: str, origin: str) -> Iterator[MessageId]:
    """Yield the texts of a template's tags; Unreadable where there are more tags than texts.

    Babel would read what `templatize` makes as Python, which it is not: only its calls are.
    """
    calls = _CALL.findall(templatize(source, origin))
    if (tags := len(_TAG.findall(source))) > len(calls):
        raise Unreadable(f"{origin}: {tags} tags and {len(calls)} texts")
    for function, arguments in calls:
        literals = ast.literal_eval(f"({arguments},)")
        if function == "pgettext":
            yield CONTEXT_END.join(literals)
        else:
            yield literals[0] if len(literals) == 1 else literals
