"""The clockwork as the API shows it: what the rows say, unknown as null."""

import pytest
from django.db import OperationalError

from apps.clockwork import claims, selectors
from apps.clockwork.claims import Ended
from apps.clockwork.models import Outcome, Part
from tests.web.conftest import Api


@pytest.fixture(autouse=True)
def schedule(settings: object) -> None:
    settings.CLOCKWORK_SCHEDULE = {"orders.count": 3600}


@pytest.mark.django_db
def test_a_clockwork_that_never_ran_says_what_is_missing_and_knows_no_run(api: Api) -> None:
    answer = api.get("/clockwork")

    assert answer.status_code == 200
    body = answer.json()
    assert (body["stands_still"], body["last_step_at"]) == (True, None)
    assert body["reason"] == "no beat and no worker is there"
    assert body["missing"] == ["beat", "worker"]
    (task,) = body["tasks"]
    assert (task["name"], task["every_s"], task["run_count"]) == ("orders.count", 3600, 0)
    unknown = ("last_started_at", "last_duration_ms", "last_outcome", "last_error", "last_done")
    assert [task[name] for name in unknown] == [None] * 5
    assert (body["parts"], body["runs"]) == ([], [])
    assert body["sampled_at"].endswith("Z")


@pytest.mark.django_db
def test_a_failed_run_is_told_with_its_error(api: Api) -> None:
    claimed = claims.claim("orders.count", every_s=3600, hold_s=60, owner="run 1")
    assert claimed is not None
    claims.finish(claimed, Ended(outcome=Outcome.FAILED, error="LookupError: <no>"))
    Part.objects.create(kind=Part.Kind.BEAT, name="beat@here")

    body = api.get("/clockwork").json()

    assert (body["stands_still"], body["reason"]) == (False, None)
    assert body["missing"] == ["worker"]
    (task,), (run,), (part,) = body["tasks"], body["runs"], body["parts"]
    assert (task["last_outcome"], task["last_error"]) == ("failed", "LookupError: <no>")
    assert task["failures_in_a_row"] == 1
    assert (run["owner"], run["outcome"], run["error"]) == ("run 1", "failed", "LookupError: <no>")
    assert (part["kind"], part["name"], part["is_silent"]) == ("beat", "beat@here", False)


def test_without_a_database_the_answer_is_a_503_that_says_when_to_come_back(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(selectors, "clockwork", away)

    answer = api.get("/clockwork")

    assert answer.status_code == 503
    assert answer.json()["code"] == "database_unavailable"
    assert answer["retry-after"]
