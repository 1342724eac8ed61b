"""Exports of dead letters: streamed, whole, and harmless to open."""

import csv
import io
import json
from typing import Any

import pytest
from django.test import AsyncClient

from apps.core.attachments import safe_cell
from apps.deadletters.exporting import FORMATS
from tests.web.conftest import Api
from tests.web.deadletters.letters import LetterEngine, in_thread, project

pytestmark = pytest.mark.django_db(transaction=True)


async def export(**query: str) -> Any:
    return await AsyncClient().get("/api/v1/groups/g/dead-letters:export", query)


async def chunks(answer: Any) -> list[str]:
    assert answer.status_code == 200
    assert answer.streaming
    return [chunk.decode() async for chunk in answer.streaming_content]


async def lines(**query: str) -> list[dict[str, Any]]:
    text = "".join(await chunks(await export(format="jsonl", **query)))
    return [json.loads(line) for line in text.splitlines()]


async def rows(**query: str) -> list[dict[str, str]]:
    text = "".join(await chunks(await export(format="csv", **query)))
    return list(csv.DictReader(io.StringIO(text, newline="")))


async def bury(engine: LetterEngine, count: int = 1, **said: Any) -> None:
    engine.bury("g", count, **said)
    await in_thread(lambda: project(engine))


async def test_json_lines_hold_row_and_body_oldest_first(engine: LetterEngine) -> None:
    await bury(engine, 2)
    await bury(engine, body=b"\xff")

    found = await lines()

    assert [line["offset"] for line in found] == ["0", "1", "2"]
    assert (found[0]["body"], found[0]["body_base64"]) == ("hello", None)
    assert (found[2]["body"], found[2]["body_base64"]) == (None, "/w==")
    assert found[0]["properties"]["UNIQ_KEY"] == "ID0"
    assert found[0]["attempts"][0]["reason"] == "boom"
    assert found[0]["dead_at"] == "2025-11-13T02:13:20.000Z"


async def test_ten_thousand_letters_are_streamed_portion_by_portion(engine: LetterEngine) -> None:
    await bury(engine, 10_000)
    pulls = engine.pulls

    answer = await export(format="jsonl")
    streamed = aiter(answer.streaming_content)
    head = await anext(streamed)
    first = await anext(streamed)
    pulls_for_first = engine.pulls - pulls
    rest = [chunk async for chunk in streamed]

    found = b"".join([first, *rest]).decode().splitlines()
    assert head == b""
    assert [json.loads(line)["offset"] for line in found] == [str(n) for n in range(10_000)]
    assert len(first.splitlines()) == 500
    assert pulls_for_first <= 3
    assert engine.pulls - pulls <= 3 * 20


async def test_a_filter_and_a_limit_bound_an_export(engine: LetterEngine) -> None:
    await bury(engine, 3)
    await bury(engine, 3, reason="late")

    assert len(await lines(reason="late")) == 3
    assert [line["offset"] for line in await lines(limit="2")] == ["0", "1"]
    assert await lines(state="resent") == []
    assert await rows(state="resent") == []


async def test_letters_far_apart_are_not_read_with_all_between_them(engine: LetterEngine) -> None:
    await bury(engine)
    await bury(engine, 5_000, keys="other")
    await bury(engine)
    pulls = engine.pulls

    found = await lines(key="k1")

    assert [line["body"] for line in found] == ["hello", "hello"]
    assert engine.pulls - pulls == 2


@pytest.mark.parametrize("begin", list("=+-@\t\r\n"))
async def test_no_cell_begins_a_formula(engine: LetterEngine, begin: str) -> None:
    evil = f'{begin}HYPERLINK("http://evil", "\'")'
    await bury(engine, body=evil.encode(), reason=evil, keys=evil, TAGS=evil, origin=evil)

    (row,) = await rows()

    for name in ("body", "reason", "tag", "origin_topic"):
        assert row[name] == f"'{evil}", name
    assert not [text for text in row.values() if text.startswith(tuple("=+-@\t\r\n"))]


async def test_quotes_commas_and_lines_stay_in_their_cell(engine: LetterEngine) -> None:
    evil = 'a","b\r\n"c\n,\0\u2028'
    await bury(engine, body=evil.encode(), reason='r\n,"')

    (row,) = await rows()

    assert (row["body"], row["reason"], row["attempts"]) == (evil, 'r\n,"', "17")
    assert list(row) == FORMATS["csv"].head.strip().split(",")


async def test_large_bodies_are_read_a_few_at_a_time(engine: LetterEngine) -> None:
    await bury(engine, 6, body=b"x" * (3 * 1024 * 1024))

    sizes = [len(chunk) for chunk in await chunks(await export(format="jsonl"))]

    assert len(sizes) == 1 + 3
    assert max(sizes) < 7 * 1024 * 1024


async def test_a_letter_the_log_has_lost_is_exported_without_a_body(engine: LetterEngine) -> None:
    await bury(engine, 2)
    engine.begins["%DLQ%g"] = 1

    assert [line["body"] for line in await lines()] == [None, "hello"]
    assert [row["body"] for row in await rows()] == ["", "hello"]


def test_the_answer_names_a_file_and_no_type_is_guessed(api: Api, engine: LetterEngine) -> None:
    import asyncio

    answer = asyncio.run(export(format="csv"))

    assert answer.headers["Content-Disposition"] == 'attachment; filename="dead-letters-g.csv"'
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "query",
    [{}, {"format": "xlsx"}, {"format": "csv", "limit": "0"}, {"format": "csv", "state": "odd"}],
    ids=str,
)
def test_a_bad_export_is_refused_before_anything_is_streamed(
    api: Api, engine: LetterEngine, query: dict[str, str]
) -> None:
    answer = api.get("/groups/g/dead-letters:export", **query)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_argument")


def test_a_harmless_cell_stays_as_it_is() -> None:
    assert [safe_cell(text) for text in ("a=b", "", "1", " =x")] == ["a=b", "", "1", " =x"]
