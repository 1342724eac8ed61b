"""Pipelines in the admin: rows to look at, two actions, and who may use them."""

import pytest
from django.contrib import admin as site
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.pipelines.models import RESULTS, PipelineRun
from apps.pipelines.tables import TABLES
from tests.web.pipelines.rows import file, row, run

pytestmark = pytest.mark.django_db

RUNS = "/admin/pipelines/pipelinerun/"
TABLE_OF = {table.model: name for name, table in TABLES.items() if table.model}


@pytest.mark.parametrize("model", sorted(RESULTS))
def test_results_are_listed_in_as_many_queries_as_one_row_needs(admin: Client, model: str) -> None:
    path = f"/admin/pipelines/{model.lower()}/"
    counts = []
    for hours_ago in (1, 2):
        for _ in range(3 ** (hours_ago - 1)):
            row(TABLE_OF[model], run("loss", hours_ago=hours_ago))
        with CaptureQueriesContext(connection) as asked:
            assert admin.get(path).status_code == 200
        counts.append(len(asked))

    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "model", ["pipelinerun", "lakefile", "runinput", "ingestposition", "archivedsegment",
              "pipelinestream", "streambatch"],
)  # fmt: skip
def test_nobody_adds_changes_or_deletes_rows(admin: Client, model: str) -> None:
    file(run("loss"), "a.parquet")

    assert admin.get(f"/admin/pipelines/{model}/").status_code == 200
    assert admin.get(f"/admin/pipelines/{model}/add/").status_code == 403


def test_every_model_is_in_the_admin() -> None:
    registered = {model.__name__ for model in site.site._registry}

    assert RESULTS.keys() <= registered


def test_runs_are_called_off_and_asked_for_anew(admin: Client) -> None:
    waiting, done = run("loss", state="queued"), run("skew")

    for action in ("cancel", "rerun"):
        chosen = {"action": action, "_selected_action": [waiting.pk, done.pk]}
        assert "2 rows are chosen." in admin.post(RUNS, chosen).content.decode()
        assert admin.post(RUNS, {**chosen, "apply": "1"}, follow=True).status_code == 200

    waiting.refresh_from_db()
    assert (waiting.state, waiting.cancelled_by) == ("cancelled", "root")
    new = PipelineRun.objects.filter(trigger="person")
    assert {(one.job, one.requested_by) for one in new} == {("loss", "root"), ("skew", "root")}


def test_only_who_was_given_the_right_may_act() -> None:
    viewer = get_user_model().objects.create_user("viewer", password="x", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_pipelinerun"))
    browser = Client()
    browser.force_login(viewer)
    waiting = run("loss", state="queued")

    page = browser.get(RUNS)
    browser.post(RUNS, {"action": "cancel", "_selected_action": [waiting.pk]})

    assert page.status_code == 200
    waiting.refresh_from_db()
    assert waiting.state == "queued"
