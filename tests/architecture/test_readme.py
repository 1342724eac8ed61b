"""The README in Chinese shows what the one in English does: same code, pictures, links, figures."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGLISH = (ROOT / "README.md").read_text()
CHINESE = (ROOT / "README.zh.md").read_text()

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^ {4}.*$", re.MULTILINE)
_LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)]+)\)")
_HEADING = re.compile(r"^(#+) ", re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+)`")
_NUMBER = re.compile(r"\d[\d,.]*\d|\d")
_EACH_OTHER = {"README.md", "README.zh.md"}


def blocks(text: str) -> list[str]:
    """Return the code of a README, block by block and line by line."""
    return [*_FENCED.findall(text), *_INDENTED.findall(_FENCED.sub("", text))]


def words(text: str) -> str:
    """Return a README without its code."""
    return _INDENTED.sub("", _FENCED.sub("", text))


def links(text: str) -> list[tuple[str, str]]:
    """Return what a README shows (`!`) and leads to, in order, but for the other README."""
    return [link for link in _LINK.findall(words(text)) if link[1] not in _EACH_OTHER]


def figures(text: str) -> list[str]:
    """Return the numbers that are said, those of addresses and of code left out."""
    return sorted(_NUMBER.findall(_INLINE.sub("", _LINK.sub("", words(text)))))


def test_both_have_the_same_code() -> None:
    assert len(blocks(ENGLISH)) > 20
    assert blocks(CHINESE) == blocks(ENGLISH)


def test_both_show_the_same_pictures_and_lead_to_the_same_places() -> None:
    assert links(CHINESE) == links(ENGLISH)


def test_every_place_they_lead_to_is_there() -> None:
    places = [place.partition("#")[0] for _, place in links(ENGLISH) if "://" not in place]

    assert [place for place in places if not (ROOT / place).exists()] == []


def test_both_have_the_same_parts() -> None:
    assert _HEADING.findall(CHINESE) == _HEADING.findall(ENGLISH)


def test_both_name_the_same_commands_and_settings() -> None:
    assert sorted(_INLINE.findall(words(CHINESE))) == sorted(_INLINE.findall(words(ENGLISH)))


@pytest.mark.parametrize(("text", "other"), [(ENGLISH, "README.zh.md"), (CHINESE, "README.md")])
def test_each_leads_to_the_other(text: str, other: str) -> None:
    assert f"]({other})" in text.split("## ")[0]


def test_what_was_measured_is_the_same_in_both() -> None:
    measured = [text.split("\n## ")[-3] for text in (ENGLISH, CHINESE)]

    assert measured[0].startswith("Measured\n")
    assert len(figures(measured[0])) >= 15
    assert figures(measured[1]) == figures(measured[0])
