"""Lists that are cut at a maximum say so, and those with room say nothing."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.template import Context, Template
from django.utils import translation

from apps.console.pages import access, clockwork, deadletters, group, groupoffsets, lock, objects
from apps.console.pages.alerts import alerts, channels, rules
from apps.console.pages.pipelines import overview
from apps.console.pipelines import integrity
from apps.console.pipelines.section import cut_at

_TEMPLATES = Path(__file__).resolve().parents[3] / "templates" / "console"
_TAG = re.compile(r"{% cut (\S+) (\S+)(?: \"newest\")? %}")
# By the name under which a page is given its maximum: the module of the page that gives it.
_GIVEN_BY: dict[str, tuple[Any, ...]] = {
    "lines_max": (lock,),
    "refusals_max": (lock,),
    "lines_shown": (access,),
    "resets_max": (groupoffsets,),
    "jobs_max": (deadletters,),
    "rebalances_max": (group,),
    "lites_max": (group,),
    "spans_max": (objects,),
    "deliveries_max": (channels,),
    "lately_max": (rules,),
    "silences_max": (rules,),
    "events_max": (alerts,),
    "runs_max": (clockwork,),
    "parts_max": (clockwork,),
    "running_max": (overview,),
}


def said(count: int, rows_max: int, which: str = "first", language: str = "en") -> str:
    with translation.override(language):
        text = Template("{% load cuts %}{% cut rows rows_max which %}").render(
            Context({"rows": [1] * count, "rows_max": rows_max, "which": which})
        )
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


@pytest.mark.parametrize(
    ("count", "which", "text"),
    [
        (0, "first", ""),
        (4, "first", ""),
        (5, "first", "Only the first 5 are listed here; there may be more."),
        (5, "newest", "Only the newest 5 are listed here; there may be older ones."),
    ],
)
def test_a_list_that_is_full_says_so(count: int, which: str, text: str) -> None:
    assert said(count, 5, which) == text


def test_it_is_said_in_chinese_and_not_of_what_is_unknown() -> None:
    assert said(5, 5, language="zh-hans").startswith("此处只列出前 5 条")
    unknown = Template("{% load cuts %}{% cut rows 5 %}").render(Context({"rows": None}))
    assert unknown.strip() == ""


def test_every_list_that_says_it_is_given_its_maximum_by_its_page() -> None:
    found = {
        (str(path.relative_to(_TEMPLATES)), name)
        for path in _TEMPLATES.rglob("*.html")
        for _rows, name in _TAG.findall(path.read_text())
    }

    assert {name for _path, name in found} == set(_GIVEN_BY)
    for name, modules in _GIVEN_BY.items():
        for module in modules:
            assert f'"{name}":' in Path(module.__file__).read_text(), (name, module)


def test_a_plot_of_the_first_of_many_says_so() -> None:
    assert cut_at(6, 6) == ""
    assert cut_at(6, 7) == "Only the first 6 are drawn."


def test_a_matrix_says_which_topics_and_queues_it_leaves_out() -> None:
    row = {"topic": "orders", "queue": 0}
    many = [{"topic": f"topic-{n}", "queue": 0} for n in range(integrity.MATRIX_TOPICS_MAX + 1)]

    assert integrity._cut([row]) == ""
    assert "at most 24 topics" in integrity._cut(many)
    assert "the first 32 queues" in integrity._cut([{"topic": "orders", "queue": 32}])
