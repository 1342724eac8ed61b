"""The catalog of translations is that of the sources, whole, and compiled."""

import re
from functools import cache
from pathlib import Path

import pytest
from babel.messages.catalog import Message

from tools.messages import MO, PO, catalog_of, mo_of, po_of, read_catalog, untranslated
from tools.texts import (
    CONTEXT_END,
    SOURCES,
    MessageId,
    Unreadable,
    texts_of,
    texts_of_python,
    texts_of_template,
)

CATALOG = read_catalog(PO)
MESSAGES = [message for message in CATALOG if message.id]
_PLACEHOLDER = re.compile(r"%\(\w+\)[#0+ -]*\d*(?:\.\d+)?[a-zA-Z]|%[^%(]|\{\w*\}")
_MARKUP = re.compile(r"<[^>]*>")


@cache
def texts() -> frozenset[MessageId]:
    """Return every text of the sources; they are read once."""
    return frozenset(texts_of(*SOURCES))


def placeholders(text: str) -> list[str]:
    """Return what a text has for values, in no order of its own."""
    return sorted(_PLACEHOLDER.findall(text.replace("%%", "")))


def forms(message: Message) -> tuple[list[str], list[str]]:
    """Return the texts of a message and those of its translation."""
    ids = [message.id] if isinstance(message.id, str) else list(message.id)
    strings = [message.string] if isinstance(message.string, str) else list(message.string)
    return ids, strings


def test_the_catalog_has_the_texts_of_the_sources_and_no_others() -> None:
    """`make messages` brings it up to them."""
    refreshed = catalog_of(texts(), [CATALOG])

    assert po_of(refreshed) == PO.read_bytes()


def test_the_product_reads_what_people_have_written() -> None:
    assert mo_of(CATALOG) == MO.read_bytes()


def test_no_translation_is_a_guess() -> None:
    assert [message.id for message in MESSAGES if message.fuzzy] == []


def test_a_translation_has_the_values_of_its_text() -> None:
    wrong = []
    for message in MESSAGES:
        ids, strings = forms(message)
        # The last form is the one for several, which names the number.
        if any(string and placeholders(string) != placeholders(ids[-1]) for string in strings):
            wrong.append(message.id)

    assert wrong == []


def test_a_translation_has_the_markup_of_its_text() -> None:
    wrong = []
    for message in MESSAGES:
        ids, strings = forms(message)
        markup = sorted(_MARKUP.findall(ids[-1]))
        if any(string and sorted(_MARKUP.findall(string)) != markup for string in strings):
            wrong.append(message.id)

    assert wrong == []


def test_nothing_is_left_in_one_language() -> None:
    assert untranslated(CATALOG, texts()) == []


def test_texts_of_a_template_are_found(tmp_path: Path) -> None:
    source = """
        {% load i18n %}{% translate "Topics" %} · {% translate 'It\\'s "so"' as x %}
        {% blocktranslate trimmed with a=b %}
          {{ a }} of
          100%
        {% endblocktranslate %}
        {% blocktranslate count n=3 %}{{ n }} queue{% plural %}{{ n }} queues{% endblocktranslate %}
        {% translate "Change" context "what happened" %}
    """.replace("\\'s", "s")

    assert list(texts_of_template(source, "planted.html")) == [
        "Topics",
        'Its "so"',
        "%(a)s of 100%%",
        ("%(n)s queue", "%(n)s queues"),
        f"what happened{CONTEXT_END}Change",
    ]


def test_a_tag_whose_text_is_not_found_is_an_error() -> None:
    with pytest.raises(Unreadable, match=r"planted\.html"):
        list(texts_of_template("{% translate word %}", "planted.html"))


def test_texts_of_python_are_found(tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text(
        'gettext("One") + ngettext("%(n)d a", "%(n)d b", n) + gettext(word) + f("no")\n'
    )

    assert list(texts_of_python(path)) == ["One", ("%(n)d a", "%(n)d b")]


@pytest.mark.parametrize(
    ("written", "lacks"),
    [
        ('msgid "One"\nmsgstr "一"\n', []),
        ('msgid "One"\nmsgstr ""\n', ["One"]),
        ('#, fuzzy\nmsgid "One"\nmsgstr "一"\n', ["One"]),
        ('msgid "Two"\nmsgstr "二"\n', ["One"]),
        ('msgid "One"\nmsgid_plural "Ones"\nmsgstr[0] ""\n', ["One"]),
    ],
)
def test_what_is_not_translated_is_told(tmp_path: Path, written: str, lacks: list[str]) -> None:
    path = tmp_path / "planted.po"
    path.write_text(written)

    assert untranslated(read_catalog(path), ["One"]) == lacks


def test_what_is_not_translated_is_shown_as_it_is(tmp_path: Path) -> None:
    planted = catalog_of([("One", "Ones"), "Two"], [])

    assert b"One" not in mo_of(planted)
