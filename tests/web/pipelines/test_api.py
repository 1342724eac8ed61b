"""REST of the pipelines: runs, results, downloads, streams."""

import csv
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.core.pagination import rfc3339
from apps.pipelines import conf
from apps.pipelines.api.views import files as file_views
from apps.pipelines.models import PipelineRun, PipelineStream, RunInput, StreamBatch
from apps.pipelines.place import Place
from apps.pipelines.tables import TABLES
from tests.web.deadletters.letters import in_thread
from tests.web.pipelines.rows import NOW, file, row, run

pytestmark = pytest.mark.django_db

BASE = "/api/v1/pipelines"
WISH = {"job": "loss", "from": "2025-01-01T00:00:00Z", "to": "2025-01-01T01:00:00Z"}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the lake be an empty directory."""
    found = tmp_path / "lake"
    found.mkdir()
    place = Place(lake=found, store=tmp_path, server="", bodies=True)
    monkeypatch.setattr(file_views.conf, "place", lambda: place)
    assert conf.place() is place
    return found


def post(path: str, body: object = None) -> Any:
    return Client().post(f"{BASE}{path}", data=body or {}, content_type="application/json")


def get(path: str, **query: str) -> Any:
    return Client().get(f"{BASE}{path}", query)


def test_asking_twice_gives_the_same_run_and_says_where_it_is() -> None:
    first, second = post("/runs", WISH), post("/runs", WISH)

    assert first.status_code == second.status_code == 202
    assert first["Location"] == f"{BASE}/runs/{first.json()['id']}"
    assert first.json()["id"] == second.json()["id"]
    assert first.json()["state"] == "queued"


@pytest.mark.parametrize(("state", "told"), [("running", 70), ("failed", None)])
def test_rows_of_a_stage_are_told_while_it_goes_on(state: str, told: int | None) -> None:
    made = run("loss", state=state, stage="reading", stage_rows_read=70)

    assert get(f"/runs/{made.pk}").json()["stage_rows_read"] == told


def test_asking_for_what_is_done_is_200_and_replacing_it_is_202() -> None:
    made = PipelineRun.objects.get(pk=post("/runs", WISH).json()["id"])
    PipelineRun.objects.update(state="done", ended_at=NOW, published=True)

    assert post("/runs", WISH).status_code == 200
    again = post("/runs", {**WISH, "replace": True})
    rerun = post(f"/runs/{made.pk}:rerun")

    assert again.status_code == rerun.status_code == 202
    assert again.json()["replaces"] == str(made.pk)
    assert rerun.json()["id"] == again.json()["id"]


@pytest.mark.parametrize(
    "bad",
    [
        {"job": "none"},
        {"from": "yesterday"},
        {"to": "2025-01-01T00:00:00Z"},
        {"to": "2999-01-01T00:00:00Z"},
        {"topics": ["nowhere"]},
        {"topics": "orders"},
        {"parameters": {"A": 1}},
        {"replace": "yes"},
        {"more": 1},
    ],
    ids=str,
)
def test_a_bad_wish_is_refused_and_makes_no_run(bad: dict[str, object]) -> None:
    answer = post("/runs", {**WISH, **bad})

    assert answer.status_code in (404, 422)
    assert answer["Content-Type"].startswith("application/problem+json")
    assert not PipelineRun.objects.exists()


def test_a_run_is_called_off_once_it_is_known() -> None:
    made, ended = run("loss", state="queued"), run("skew")

    assert post(f"/runs/{made.pk}:cancel").json()["state"] == "cancelled"
    assert post(f"/runs/{ended.pk}:cancel").json()["code"] == "conflict"
    assert post("/runs/999:cancel").status_code == 404
    assert post("/runs/x:cancel").status_code == 404


def test_runs_are_listed_by_filter_and_page_and_one_shows_its_lineage() -> None:
    runs = [run("loss", hours_ago=number) for number in range(1, 5)]
    run("skew", state="failed")
    RunInput.objects.create(
        run=runs[0], table="log", topic="orders", queue=2, first_offset=5, end_offset=9, rows=4
    )
    file(runs[0], "a.parquet")

    first = get("/runs", job="loss", limit="3").json()
    rest = get("/runs", job="loss", limit="3", cursor=first["next_cursor"]).json()
    whole = get(f"/runs/{runs[0].pk}").json()

    assert [one["id"] for one in first["items"] + rest["items"]] == [
        str(made.pk) for made in reversed(runs)
    ]
    assert rest["next_cursor"] is None
    assert [one["job"] for one in get("/runs", state="failed").json()["items"]] == ["skew"]
    assert get("/runs", state="x").status_code == get("/runs", job="x").status_code == 422
    assert whole["inputs"][0]["first_offset"] == "5"
    assert whole["files"][0]["path"] == "a.parquet"


def test_jobs_tell_how_they_stand_and_whether_they_can_run() -> None:
    made = run("loss", requested_at=timezone.now())

    listed = get("/jobs").json()
    one = get("/jobs/loss").json()

    assert one in listed["items"]
    assert isinstance(listed["readiness"]["is_ready"], bool)
    assert one["last_run"]["id"] == str(made.pk)
    assert one["durations_ms"] == [12_345]
    assert get("/jobs/none").status_code == 404


def test_results_are_filtered_and_paged_and_places_are_texts() -> None:
    made = run("loss")
    for number in range(3):
        row("gold.loss", made, topic="orders", first_seq=number, next_offset=2**60)
    row("gold.loss", made, topic="other")

    first = get("/results/gold.loss", topic="orders", limit="2").json()
    rest = get("/results/gold.loss", topic="orders", cursor=first["next_cursor"]).json()

    found = [one["values"] for one in first["items"] + rest["items"]]
    assert [values["first_seq"] for values in found] == ["2", "1", "0"]
    assert found[0]["next_offset"] == str(2**60)
    assert found[0].keys() == set(TABLES["gold.loss"].names())
    assert (first["runs"], first["window_start"]) == (1, "2025-11-13T01:00:00.000Z")
    assert get("/results/gold.loss", run=str(made.pk), topic="other").json()["items"]


def test_tables_that_are_for_nobody_or_unknown_are_not_found() -> None:
    for table in ("bronze.messages", "gold.none", "input.locks", "gold.duplicates", "..%2Fx"):
        assert get(f"/results/{table}").status_code == 404
    names = {one["name"] for one in get("/results").json()["items"]}
    assert names == {table.name for table in TABLES.values() if table.model}


@pytest.mark.parametrize(
    "query", [{"span": "x"}, {"to": "x"}, {"run": "x"}, {"format": "xml"}, {"topic": "\0"}], ids=str
)
def test_a_bad_choice_of_results_is_refused(query: dict[str, str]) -> None:
    assert get("/results/gold.loss", **query).status_code == 422
    assert get("/results/gold.loss", run="999").status_code == 404


@pytest.mark.django_db(transaction=True)
async def test_csv_has_all_rows_by_format_and_by_accept_and_no_formula() -> None:
    def make() -> None:
        made = run("loss")
        for number in range(2_100):
            row("gold.loss", made, first_seq=number, producer="=1+1")

    await in_thread(make)
    answers = [
        await asked("/results/gold.loss?format=csv"),
        await asked("/results/gold.loss", accept="text/csv"),
    ]
    texts = [await whole(answer) for answer in answers]

    assert texts[0] == texts[1]
    rows = list(csv.DictReader(io.StringIO(texts[0].decode(), newline="")))
    assert [int(found["first_seq"]) for found in rows] == list(range(2_100))
    assert rows[0]["producer"] == "'=1+1"
    assert answers[0]["Content-Type"].startswith("text/csv")
    refused = await asked("/results/none", accept="text/csv")
    assert refused.status_code == 404
    assert refused.json()["code"] == "not_found"


@pytest.mark.django_db(transaction=True)
async def test_files_of_a_run_come_one_by_one_and_together(lake: Path) -> None:
    (lake / "t").mkdir()
    (lake / "t/a.parquet").write_bytes(b"PAR1" * 100_000)
    (lake / "t/b.parquet").write_bytes(b"")

    def make() -> tuple[int, int]:
        made = run("loss")
        found = file(made, "t/a.parquet")
        file(made, "t/b.parquet")
        file(made, "t/gone.parquet")
        return made.pk, found.pk

    number, first = await in_thread(make)

    one = await asked(f"/files/{first}")
    together = await asked(f"/runs/{number}:download")

    assert await whole(one) == b"PAR1" * 100_000
    assert one["Content-Length"] == "400000"
    archive = zipfile.ZipFile(io.BytesIO(await whole(together)))
    assert archive.namelist() == ["t/a.parquet", "t/b.parquet"]
    assert archive.read("t/a.parquet") == b"PAR1" * 100_000
    assert archive.testzip() is None


def test_no_path_leads_out_of_the_lake(lake: Path) -> None:
    secret = lake.parent / "secret.parquet"
    secret.write_bytes(b"secret")
    (lake / "link.parquet").symlink_to(secret)
    (lake / "directory.parquet").mkdir()
    made = run("loss")
    bad = ("../secret.parquet", str(secret), "link.parquet", "a/../../secret.parquet",
           "directory.parquet", "nowhere.parquet")  # fmt: skip

    for path in bad:
        assert get(f"/files/{file(made, path).pk}").status_code == 404, path
    assert get(f"/runs/{made.pk}:download").status_code == 404
    for name in ("..%2Fsecret.parquet", "secret.parquet", "0", "-1", str(2**80)):
        assert get(f"/files/{name}").status_code == 404, name


def test_a_file_that_was_deleted_is_not_found_though_its_name_is_used_again(lake: Path) -> None:
    (lake / "a.parquet").write_bytes(b"x")

    assert get(f"/files/{file(run('loss'), 'a.parquet', deleted_at=NOW).pk}").status_code == 404


def test_streams_and_their_batches_are_listed() -> None:
    stream = PipelineStream.objects.create(name="ingest", topics=["orders"], batch=1, lag=7)
    for number in range(3):
        StreamBatch.objects.create(
            stream=stream, number=number, rows=5, duration_ms=900, ended_at=NOW
        )

    (told,) = get("/streams").json()["items"]
    assert told == get("/streams/ingest").json()
    names = ("batch", "batch_rows", "batch_ended_at", "rows_per_s", "lag")
    assert [told[name] for name in names] == ["2", 5, rfc3339(NOW), None, 7]
    first = get("/streams/ingest/batches", limit="2").json()
    rest = get("/streams/ingest/batches", cursor=first["next_cursor"]).json()
    assert [one["number"] for one in first["items"] + rest["items"]] == ["2", "1", "0"]
    assert get("/streams/none").status_code == 404


async def asked(path: str, accept: str = "*/*") -> Any:
    """Ask in a thread that keeps no connection; what streams is read by the loop."""
    return await in_thread(lambda: Client().get(f"{BASE}{path}", headers={"accept": accept}))


async def whole(answer: Any) -> bytes:
    assert answer.status_code == 200
    return b"".join([piece async for piece in answer.streaming_content])
