"""Pages of the pipelines: with rows, without, with hostile names, in few queries."""

import re
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.console.pages.pipelines.results import PICTURES
from apps.pipelines.catalogue import JOBS
from apps.pipelines.models import PipelineRun, PipelineStream, RunInput
from apps.pipelines.tables import TABLES
from tests.web.console.fakes import POLYGLOT
from tests.web.console.test_pages import parsed
from tests.web.pipelines.rows import file, row, run

pytestmark = pytest.mark.django_db

QUERIES_MAX = 16


def text_of(answer: Any) -> str:
    page = re.sub(r"<(script|style).*?</\1>", " ", answer.content.decode(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


def fill(name: str, *, count: int = 1) -> None:
    """Give every table of every job rows in which every text is `name`."""
    for job in JOBS.values():
        for hours_ago in range(1, count + 1):
            made = run(job.name, hours_ago=hours_ago)
            for table in job.writes:
                if TABLES[table].model:
                    texts: dict[str, Any] = {
                        column.name: name
                        for column in TABLES[table].columns
                        if column.kind == "string" and not column.is_nullable
                    }
                    # What failed or is behind is what there is to see.
                    said = {"gold.retries": {"attempts": 3, "final": "dead"}}.get(table, {})
                    said |= {"gold.backlog": {"lag": 5}}.get(table, {})
                    texts |= said
                    row(table, made, **texts)
                    if "group" in texts:
                        row(table, made, **{**texts, "group": ""})
        file(made, f"{job.name}/{name}.parquet", topic=name, table=(job.writes or ("x",))[0])
        RunInput.objects.create(
            run=made, table="log", topic=name, queue=0, first_offset=3, end_offset=9, rows=6
        )


def paths() -> list[str]:
    last = PipelineRun.objects.order_by("-pk").first()
    results = [f"/pipelines/results/{job}/" for job in JOBS]
    run_page = [f"/pipelines/runs/{last.pk}/"] if last else []
    return ["/pipelines/", "/pipelines/runs/", *run_page, *results]


def test_without_a_row_every_page_says_what_would_be_there(browser: Client) -> None:
    pages = {path: browser.get(path) for path in paths()}

    assert {answer.status_code for answer in pages.values()} == {200}
    assert text_of(pages["/pipelines/"]).count("never run") == len(JOBS)
    assert "No job has run yet" in text_of(pages["/pipelines/runs/"])
    assert "has published nothing yet" in text_of(pages["/pipelines/results/loss/"])
    assert "The lake has nothing of this yet" in text_of(pages["/pipelines/results/ingest/"])


def test_every_page_shows_rows_in_few_queries_however_many_there_are(browser: Client) -> None:
    fill("orders", count=3)
    PipelineStream.objects.create(name="ingest", topics=["orders"], lag=77)

    for path in paths():
        with CaptureQueriesContext(
            connection,
        ) as asked:
            answer = browser.get(path)
        assert answer.status_code == 200, path
        assert len(asked) <= QUERIES_MAX, (path, [query["sql"][:90] for query in asked])
        job = path.split("/")[-2]
        assert job not in PICTURES or "orders" in text_of(answer), path


@pytest.mark.parametrize("job", sorted(set(PICTURES) - {"quality"}))
def test_a_job_with_results_has_a_plot_with_a_table_beneath(browser: Client, job: str) -> None:
    fill("orders", count=2)

    markup = browser.get(f"/pipelines/results/{job}/").content.decode()

    assert markup.count("<svg") >= 1
    assert markup.index("<svg") < markup.index("<table")


def test_hostile_names_are_text_on_every_page(browser: Client) -> None:
    fill(POLYGLOT, count=1)
    made = run("rates", state="running", stage=POLYGLOT, topics=[POLYGLOT], error=POLYGLOT)
    PipelineStream.objects.create(name="s", topics=[POLYGLOT], error=POLYGLOT)
    hostile = f"/pipelines/results/loss/?topic={'%3Cscript%3E'}&to=%3Cb%3E"

    for path in [*paths(), f"/pipelines/runs/{made.pk}/", hostile]:
        page = parsed(browser.get(path))

        assert [script.get("type") for script in page.all("script")] == ["module"] * 2, path
        assert all((image.get("src") or "").startswith("/static/") for image in page.all("img"))
        for _, attributes in page.elements:
            assert "style" not in attributes
            assert not [name for name in attributes if name.startswith("on")]


def test_the_matrix_counts_each_queue_once_over_runs_that_overlap(browser: Client) -> None:
    for hours_ago in (1, 2):
        row("gold.loss_totals", run("loss", hours_ago=hours_ago), topic="orders", missing=3)
    # Somebody looked at both hours at once: that is the longer window, and the one that counts.
    row("gold.loss_totals", run("loss", hours_ago=2, hours=2), topic="orders", missing=1_000)

    page = text_of(browser.get("/pipelines/results/loss/"))

    assert "orders, queue 1: 1,000 missing" in page
    assert "From 1 run. 2 of the same time are left out" in page


def test_what_was_replaced_or_not_published_is_not_shown(browser: Client) -> None:
    old = run("loss")
    row("gold.loss_totals", old, topic="orders", missing=111)
    row("gold.loss_totals", run("loss", replaces=old), topic="orders", missing=222)
    row("gold.loss_totals", run("loss", state="failed"), topic="orders", missing=333)

    page = text_of(browser.get("/pipelines/results/loss/"))

    assert "222" in page
    assert "111" not in page
    assert "333" not in page


def test_topic_and_time_are_chosen_by_the_address(browser: Client) -> None:
    for hours_ago, missing in ((1, 4), (30, 500)):
        made = run("loss", hours_ago=hours_ago)
        row("gold.loss_totals", made, topic="orders", missing=missing)
        row("gold.loss_totals", made, topic="other", missing=60_000)

    pages = {
        query: text_of(browser.get(f"/pipelines/results/loss/?{query}"))
        for query in ("topic=orders", "topic=orders&span=week", "topic=orders&span=last",
                      f"topic=orders&run={made.pk}", "span=year", "run=0", "to=soon", "topic=none")
    }  # fmt: skip

    assert "orders, queue 1: 4 missing" in pages["topic=orders"]
    assert "60,000" not in pages["topic=orders"]
    assert "orders, queue 1: 504 missing" in pages["topic=orders&span=week"]
    assert "orders, queue 1: 4 missing" in pages["topic=orders&span=last"]
    assert "orders, queue 1: 500 missing" in pages[f"topic=orders&run={made.pk}"]
    for query in ("span=year", "run=0", "to=soon"):
        assert "Search by" in pages[query]
    assert "No queue had messages in this time" in pages["topic=none"]


def test_a_run_that_goes_on_refreshes_itself_and_can_be_called_off(browser: Client) -> None:
    made = run("loss", state="running", stage="reading", percent=43.2, stage_rows_read=1_216)

    page = browser.get(f"/pipelines/runs/{made.pk}/").content.decode()
    answer = browser.post(f"/pipelines/runs/{made.pk}/cancel", follow=True)

    assert '<meta http-equiv="refresh" content="2">' in page
    assert 'value="43"' in page
    assert ">1,216</b> rows read" in page
    assert "Being called off" in text_of(answer)
    made.refresh_from_db()
    assert made.cancel_requested


def test_a_run_that_ended_can_be_run_again_and_not_called_off(browser: Client) -> None:
    made = run("loss")

    again = browser.post(f"/pipelines/runs/{made.pk}/rerun", follow=True)
    refused = browser.post(f"/pipelines/runs/{made.pk}/cancel", follow=True)

    new = PipelineRun.objects.order_by("-pk").first()
    assert new is not None
    assert (new.state, new.replaces_id, new.trigger) == ("queued", made.pk, "person")
    assert f"Run {new.pk} is queued" in text_of(again)
    assert "it is done" in text_of(refused)


def test_a_run_is_asked_for_by_a_form_and_a_bad_wish_is_told(browser: Client) -> None:
    wish = {"job": "loss", "from": "2025-01-01T00:00", "to": "2025-01-01T01:00", "topics": ""}

    first = browser.post("/pipelines/runs/ask", wish, follow=True)
    browser.post("/pipelines/runs/ask", wish)
    refused = [
        text_of(browser.post("/pipelines/runs/ask", {**wish, **bad}, follow=True))
        for bad in ({"to": ""}, {"from": "x"}, {"job": "none"}, {"topics": "nowhere"})
    ]

    assert "is queued" in text_of(first)
    assert PipelineRun.objects.count() == 1
    for page, told in zip(
        refused, ("is needed", "must be RFC 3339", "There is no job", "no topic"), strict=True
    ):
        assert told in page


def test_unknown_runs_and_jobs_are_a_404_that_leads_on(browser: Client) -> None:
    for path in ("/pipelines/runs/999/", f"/pipelines/runs/{2**70}/", "/pipelines/results/none/"):
        answer = browser.get(path)
        assert answer.status_code == 404, path
        assert "There is no" in text_of(answer)


def test_runs_are_listed_by_job_and_state_and_page_by_page(browser: Client) -> None:
    for hours_ago in range(1, 53):
        run("loss", hours_ago=hours_ago)
    run("skew", state="failed")

    first = browser.get("/pipelines/runs/?job=loss")
    older = re.search(r'href="\?(job=loss[^"]+)"', first.content.decode())
    assert older is not None
    second = text_of(browser.get(f"/pipelines/runs/?{unescape(older[1])}"))
    failed = text_of(browser.get("/pipelines/runs/?state=failed"))

    assert first.content.decode().count('<th scope="row" class="short">') == 50
    assert second.count("done") >= 2
    assert "skew failed" in failed
    assert "Search by state" in text_of(browser.get("/pipelines/runs/?state=x"))
