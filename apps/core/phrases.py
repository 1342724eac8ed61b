"""Texts for people that become words when somebody reads them. Knows Django's catalogs; no page.

A picture is built once for all viewers, and a refusal before anybody knows who will read it. So
both hold phrases: an English sentence with named gaps, and what belongs into them. A phrase becomes
text in the language that is active then, as often as it is read. A `Sentence` is English wherever
it is taken as text, as programs want it, and keeps its phrase for pages.

    phrase("Offset %(offset)s", offset=12)         by these names `make messages` finds the texts
    phrases("%(count)s group", "%(count)s groups", 3)
    phrase_in("lock", "held")
    sentence("there is no topic %(topic)s", topic="orders")
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol, runtime_checkable

from django.utils import translation
from django.utils.functional import Promise

from apps.core.languages import DEFAULT

# What a phrase is called on its way to another process; no row of a picture has such a name.
TRAVELS_AS: Final = "\N{SYMBOL FOR SHIFT OUT}"


# A frame has thousands of phrases of a few dozen sentences; Django's way to one takes a while.
@lru_cache(maxsize=10_000)
def _in_language(language: str, text: str, plural: str, number: int, context: str) -> str:
    with translation.override(language):
        if plural:
            return translation.ngettext(text, plural, number)
        if context:
            return translation.pgettext(context, text)
        return translation.gettext(text)


class Phrase:
    """One sentence with what fills its gaps; equal phrases read the same in every language.

    No dataclass: msgspec would write its fields, and not ask us.
    """

    __slots__ = ("_parts",)

    def __init__(
        self,
        text: str,
        *,
        plural: str = "",
        number: int = 0,
        context: str = "",
        values: tuple[tuple[str, "str | int | Phrase"], ...] = (),
    ) -> None:
        """Keep the parts; see the functions below."""
        self._parts = (text, plural, number, context, values)

    def __eq__(self, other: object) -> bool:
        """Say whether the other is the same sentence with the same values."""
        return isinstance(other, Phrase) and self._parts == other._parts

    def __hash__(self) -> int:
        """Return what equal phrases share."""
        return hash(self._parts)

    def __repr__(self) -> str:
        """Return the sentence in English, marked as a phrase."""
        return f"<Phrase: {self.english}>"

    @property
    def luggage(self) -> tuple[str, str, int, str, tuple[tuple[str, "Text | int"], ...]]:
        """All of it, as `__init__` takes it."""
        return self._parts

    def __str__(self) -> str:
        """Return the sentence in the active language."""
        return self.read_in(translation.get_language() or DEFAULT)

    def read_in(self, language: str) -> str:
        """Return the sentence in a language, by Django's code for it."""
        text, plural, number, context, values = self._parts
        text = _in_language(language, text, plural, number, context)
        if not values:
            # Without gaps a percent sign is only that.
            return text
        return text % {
            name: value.read_in(language) if isinstance(value, Phrase) else value
            for name, value in values
        }

    @property
    def english(self) -> str:
        """The sentence in English, whatever language is active."""
        text, plural, number, _, values = self._parts
        text = plural if plural and number != 1 else text
        filled = {name: _english(value) for name, value in values}
        return text % filled if filled else text


Text = str | Phrase
"""A text as it is, or one that is still to be put into words."""


def phrase(text: str, /, **values: Text | int) -> Phrase:
    """Return a phrase; its gaps are written `%(name)s`."""
    return Phrase(text, values=_kept(values))


def phrases(singular: str, plural: str, number: int, /, **values: Text | int) -> Phrase:
    """Return a phrase of a number, which its gap `%(count)s` shows unless `count` is given."""
    values.setdefault("count", number)
    return Phrase(singular, plural=plural, number=number, values=_kept(values))


def phrase_in(context: str, text: str, /, **values: Text | int) -> Phrase:
    """Return a phrase that means something else elsewhere; `context` says where this is."""
    return Phrase(text, context=context, values=_kept(values))


def _kept(values: Mapping[str, Text | int]) -> tuple[tuple[str, Text | int], ...]:
    return tuple(
        (name, value.phrase if isinstance(value, Sentence) else value)
        for name, value in values.items()
    )


class Sentence(str):
    """An English text that knows its phrase: programs and logs get the one, pages the other."""

    __slots__ = ("phrase",)

    phrase: Phrase

    def __new__(cls, found: Phrase) -> "Sentence":
        """Put a phrase into English."""
        made = super().__new__(cls, found.english)
        made.phrase = found
        return made

    def __reduce__(self) -> tuple[type["Sentence"], tuple[Phrase]]:
        """Keep the phrase where the text is copied."""
        return Sentence, (self.phrase,)


def _english(value: "Text | int") -> str:
    return value.english if isinstance(value, Phrase) else str(value)


def sentence(text: str, /, **values: Text | int) -> Sentence:
    """Return the English text of a phrase that keeps the phrase."""
    return Sentence(phrase(text, **values))


def sentences(singular: str, plural: str, number: int, /, **values: Text | int) -> Sentence:
    """Return the English text of a phrase of a number."""
    return Sentence(phrases(singular, plural, number, **values))


@runtime_checkable
class Templated(Protocol):
    """An English text of a part that knows no language: its sentence, and what fills its gaps."""

    @property
    def template(self) -> str:
        """The sentence with its gaps."""

    @property
    def values(self) -> Mapping[str, str]:
        """What fills them."""


def read(text: object) -> str:
    """Return a text in the active language: that of its phrase, where it has one."""
    if isinstance(text, Templated):
        return str(phrase(text.template, **text.values))
    return str(text.phrase if isinstance(text, Sentence) else text)


def told(error: BaseException) -> str:
    """Return what an error says in the active language; English where it has no phrase."""
    return read(error.args[0]) if has_phrase(error) else str(error)


def has_phrase(error: BaseException) -> bool:
    """Say whether an error can be told in another language than English."""
    return len(error.args) == 1 and isinstance(error.args[0], Sentence | Templated)


def as_text(value: object) -> str:
    """Return what JSON cannot hold as text in the active language; TypeError for what is none.

    Made for `enc_hook` of msgspec and `default` of json.
    """
    if isinstance(value, Phrase | Promise):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no value of JSON")


def reader(language: str) -> Callable[[object], str]:
    """Return what `as_text` does in a language, whichever is active."""

    def read_in(value: object) -> str:
        if isinstance(value, Phrase):
            return value.read_in(language)
        with translation.override(language):
            return as_text(value)

    return read_in


def as_luggage(value: object) -> Mapping[str, Any]:
    """Return what JSON cannot hold for another process; `unpacked` makes phrases of it again."""
    if not isinstance(value, Phrase):
        raise TypeError(f"{type(value).__name__} is no value of JSON")
    return {TRAVELS_AS: value.luggage}


def unpacked(value: Any) -> Any:  # Values of JSON.
    """Return a value of JSON with the phrases in it, as they were before they travelled."""
    if isinstance(value, list):
        return [unpacked(below) if isinstance(below, list | dict) else below for below in value]
    if not isinstance(value, dict):
        return value
    if TRAVELS_AS in value:
        text, plural, number, context, values = value[TRAVELS_AS]
        kept = tuple((name, unpacked(below)) for name, below in values)
        return Phrase(text, plural=plural, number=number, context=context, values=kept)
    return {
        name: unpacked(below) if isinstance(below, list | dict) else below
        for name, below in value.items()
    }
