"""What a page in Chinese may still say in Latin letters, and how wide Chinese is. Knows no page."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Three words of Latin letters in a row read like a sentence.
_SENTENCE = re.compile(r"[A-Za-z][a-z']+(?:[ ,;:.]+[A-Za-z][a-z']+){2,}")
ALLOWED = {
    r"\b(?:mq|celery|python|make|manage\.py|curl) [-\w ./]+": "a command that is typed like this",
    r"\bGET /[\w/]+": "a request of the API",
    r"When the store is damaged": "the title of a part of the manual, which is in English",
    r"Authorization: Bearer": "a header of HTTP",
}
# What people say in the journeys: a reason is shown as it was given, in every language.
SAID = (
    "the till burns", "it is poison", "it still is", "nobody can eat it", "nobody lives there",
    "the shop asked for them", "it was the wrong group",
)  # fmt: skip
# Where others wrote the text: names, bodies, reasons, errors. Code is code in every language.
_OF_OTHERS = "code, pre, bdi, script, style, template, .name, .owner, .code, .told, .by-others"

_TEXTS = """others => {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const { parentElement: parent, textContent: text } = walker.currentNode;
        if (!parent.closest(others) && text.trim()) found.push(text.trim());
    }
    for (const name of ["title", "aria-label", "placeholder", "alt"]) {
        for (const element of document.querySelectorAll(`[${name}]`)) {
            if (!element.closest(others)) found.push(element.getAttribute(name));
        }
    }
    return found;
}"""
# Machines that run tests have no Chinese font, and a missing character is narrow. A long dash is as
# wide as a Chinese character is; like one it may stand at the end of a line.
_WIDENED = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode;
        const wide = /[\\u3000-\\u9fff\\uff00-\\uffef]/g;
        const text = node.textContent.replace(wide, "\\u2014\\u200b");
        if (text !== node.textContent) node.textContent = text;
    }
}"""


def english(text: str) -> list[str]:
    """Return what reads like a sentence in English, without what is allowed to."""
    for allowed in (*ALLOWED, *map(re.escape, SAID)):
        text = re.sub(allowed, "", text)
    return _SENTENCE.findall(text)


def left_in_english(page: "Page") -> list[str]:
    """Return the texts of ours on a page that nobody has translated."""
    texts: list[str] = page.evaluate(_TEXTS, _OF_OTHERS)
    return [text for text in texts if english(text)]


def widen(page: "Page") -> None:
    """Make each Chinese character as wide as a font for Chinese makes it."""
    page.evaluate(_WIDENED)
