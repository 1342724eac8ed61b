"""Scripts of pages have no text of their own: what they say is among the words of the page."""

import re
from pathlib import Path

from apps.console.words import WORDS

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "static" / "console").glob("*.js"))
_SAID = re.compile(r"\bsaid\(\"(\w+)\"")
_COMMENT = re.compile(r"//.*")
# What is between quotes and reads like text: two words, or one with a capital at its begin.
_TEXT = re.compile(r"[\"'`]([A-Z][a-z]+(?: [a-z]+)*|[a-z]+(?: [a-z]+)+)[\"'`]")
# Names of the platform, and one font.
_NAMES = {"Accept", "sans serif"}
# States that the socket tells the page, which says the word of each.
_STATES = {"live", "stale", "reconnecting", "still"}


def test_every_word_that_a_script_says_is_among_the_words() -> None:
    said = {word for path in SCRIPTS for word in _SAID.findall(path.read_text())}

    assert len(said) > 10
    assert said <= WORDS.keys()


def test_every_word_is_said_by_a_script() -> None:
    said = {word for path in SCRIPTS for word in _SAID.findall(path.read_text())} | _STATES

    assert set(WORDS) <= said


def texts(script: str) -> set[str]:
    """Return what reads like text in a script, comments left out."""
    return set(_TEXT.findall(_COMMENT.sub("", script))) - _NAMES


def test_no_script_has_a_text_in_one_language() -> None:
    assert {path.name: found for path in SCRIPTS if (found := texts(path.read_text()))} == {}


def test_a_text_in_a_script_is_caught() -> None:
    assert texts('box.textContent = "Stale since"; // "Not this"') == {"Stale since"}
