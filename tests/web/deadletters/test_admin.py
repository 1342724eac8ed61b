"""Dead letters in the admin: filters, actions by tick or by filter, and who may use them."""

import asyncio
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from apps.deadletters import services
from apps.deadletters.models import DeadLetter, JobState, ResendJob
from apps.topics.models import Topic
from tests.web.console.fakes import POLYGLOT
from tests.web.deadletters.letters import LetterEngine, project, states
from tests.web.group_values import NOW_MS

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "/admin/deadletters/deadletter/"
JOBS = "/admin/deadletters/resendjob/"


def chosen(*offsets: int, action: str = "resend", **values: Any) -> dict[str, Any]:
    rows = DeadLetter.objects.filter(queue_offset__in=offsets)
    return {"action": action, "_selected_action": [row.pk for row in rows], **values}


def test_the_list_filters_and_searches(admin: Client, engine: LetterEngine) -> None:
    engine.bury("g", 2)
    engine.bury("h", reason="late", keys="alone")
    project(engine)

    counts = {
        query: admin.get(f"{LIST}?{query}").context["cl"].result_count
        for query in ("group=h", "state=waiting", "reason=late", "origin_topic=orders", "q=ID1",
                      "q=alone", "q=k1", "q=k", "q=%00", "dead_at__year=2025")
    }  # fmt: skip

    assert counts == {
        "group=h": 1, "state=waiting": 3, "reason=late": 1, "origin_topic=orders": 3, "q=ID1": 1,
        "q=alone": 1, "q=k1": 2, "q=k": 0, "q=%00": 3, "dead_at__year=2025": 3,
    }  # fmt: skip


def test_ticked_letters_are_sent_after_the_plan_was_shown(
    admin: Client, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 3)
    project(engine)

    asked = admin.post(LIST, chosen(0, 2))
    page = asked.content.decode()
    assert "g: 2 to orders" in page
    assert states() == ["waiting"] * 3
    answer = admin.post(LIST, chosen(0, 2, apply="1", where="origin", rate_per_s="5"))

    assert answer.status_code == 302
    job = ResendJob.objects.get()
    assert (job.total, job.rate_per_s, job.created_by) == (2, 5, "root")
    assert states() == ["resending", "waiting", "resending"]


def test_all_that_the_filter_matches_are_sent_a_job_for_each_group(
    admin: Client, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 130)
    engine.bury("h", 2)
    engine.bury("h", reason="late")
    project(engine)
    values = chosen(0, select_across="1", apply="1", where="group")

    answer = admin.post(f"{LIST}?reason=boom", values)

    assert answer.status_code == 302
    jobs = {job.group: (job.total, job.target, job.criteria) for job in ResendJob.objects.all()}
    assert jobs == {
        "g": (130, "%RETRY%g", {"admin": "reason=boom"}),
        "h": (2, "%RETRY%h", {"admin": "reason=boom"}),
    }
    assert states("h") == ["resending", "resending", "waiting"]


def test_a_dry_run_of_the_admin_changes_nothing(
    admin: Client, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 3)
    project(engine)

    page = admin.post(LIST, chosen(0, 1, apply="1", where="origin", dry_run="on"), follow=True)

    assert "2 would be sent" in page.content.decode()
    assert states() == ["waiting"] * 3


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"where": "topic"}, "another topic needs a name"),
        ({"where": "origin", "rate_per_s": "x"}, "Enter a whole number"),
        ({"where": "topic", "topic": "nowhere"}, "there is no topic &#x27;nowhere&#x27;"),
    ],
    ids=str,
)
def test_a_bad_wish_is_told_in_the_admin(
    admin: Client, engine: LetterEngine, values: dict[str, str], told: str
) -> None:
    engine.bury("g")
    project(engine)

    page = admin.post(LIST, chosen(0, apply="1", **values), follow=True).content.decode()

    assert told in page
    assert states() == ["waiting"]


def test_chosen_letters_are_discarded_with_a_reason(admin: Client, engine: LetterEngine) -> None:
    engine.bury("g", 2)
    project(engine)

    asked = admin.post(LIST, chosen(0, action="discard"))
    assert "g: 1 letter" in asked.content.decode()
    assert admin.post(LIST, chosen(0, action="discard", apply="1")).status_code == 200
    admin.post(LIST, chosen(0, action="discard", apply="1", reason="known"))

    assert states() == ["discarded", "waiting"]
    row = DeadLetter.objects.get(queue_offset=0)
    assert (row.discarded_by, row.discard_reason) == ("root", "known")


def test_an_export_of_the_admin_streams_the_chosen_of_all_groups(
    admin: Client, engine: LetterEngine
) -> None:
    engine.bury("g", 2, body=b"=1+1")
    engine.bury("h", body=b"other")
    project(engine)
    values = {
        "action": "export_csv",
        "_selected_action": list(DeadLetter.objects.values_list("pk", flat=True)),
    }

    answer: Any = admin.post(LIST, values)

    async def streamed() -> str:
        return b"".join([chunk async for chunk in answer.streaming_content]).decode()

    text = asyncio.run(streamed())
    assert len(text.splitlines()) == 4
    assert text.count('"\'=1+1"') == 2
    assert '"other"' in text


def test_jobs_are_looked_at_and_called_off(
    admin: Client, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 2)
    project(engine)
    admin.post(LIST, chosen(0, 1, apply="1", where="origin"))
    job = ResendJob.objects.get()
    values = {"action": "cancel", "_selected_action": [job.pk]}

    asked = admin.post(JOBS, values).content.decode()
    assert "1 row is chosen." in asked
    page = admin.post(JOBS, {**values, "apply": "1"}, follow=True).content.decode()
    job.refresh_from_db()

    assert "is called off" in page
    assert (job.state, job.cancelled_by) == (JobState.CANCELLED, "root")
    assert admin.get(f"{JOBS}{job.pk}/change/").status_code == 200
    assert admin.get(f"{JOBS}add/").status_code == 403
    services.request_resend(
        group="g",
        letters=DeadLetter.objects.all(),
        criteria={},
        wish=services.Wish(),
        by="root",
    )
    services.send_some(now_ms=NOW_MS)
    late = ResendJob.objects.order_by("-pk")[0]
    refused = admin.post(JOBS, {**values, "_selected_action": [late.pk], "apply": "1"}, follow=True)
    assert "has ended" in refused.content.decode()


def test_only_those_with_the_right_see_and_use_the_actions(
    engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g")
    project(engine)
    user = get_user_model().objects.create_user("viewer", password="x", is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename="view_deadletter"))
    viewer = Client()
    viewer.force_login(user)

    page = viewer.get(LIST).content.decode()
    viewer.post(LIST, chosen(0, apply="1", where="origin"))
    viewer.post(LIST, chosen(0, action="discard", apply="1", reason="x"))
    assert 'value="resend"' not in page
    assert "Not offered to you: “Resend (asks" in page
    assert 'value="export_csv"' in page
    assert states() == ["waiting"]

    user.user_permissions.add(*Permission.objects.filter(codename="resend_deadletter"))
    assert 'value="resend"' in viewer.get(LIST).content.decode()
    viewer.post(LIST, chosen(0, apply="1", where="origin"))
    assert states() == ["resending"]


def test_rows_are_looked_at_and_not_changed(
    admin: Client, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", reason=POLYGLOT, keys=POLYGLOT)
    project(engine)
    engine.refused.add("orders")
    admin.post(LIST, chosen(0, apply="1", where="origin"))
    services.send_some(now_ms=NOW_MS)
    row = DeadLetter.objects.get()

    for path in (LIST, f"{LIST}{row.pk}/change/", JOBS, "/admin/deadletters/resendtrouble/"):
        page = admin.get(path)
        assert page.status_code == 200, path
        assert "<script>alert" not in page.content.decode(), path
    assert admin.get(f"{LIST}add/").status_code == 403
    assert admin.post(f"{LIST}{row.pk}/change/", {"state": "resent"}).status_code == 403
    assert admin.post(f"{LIST}{row.pk}/delete/", {"post": "yes"}).status_code == 403


def test_what_can_be_done_to_none_of_the_chosen_is_said_and_asks_nothing(
    admin: Client, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 1)
    project(engine)
    admin.post(LIST, chosen(0, action="discard", reason="because", apply="1"))

    page = admin.post(LIST, chosen(0)).content.decode()

    assert "this can be done to none of the rows that were chosen" in page
    assert 'name="apply"' not in page
    assert 'name="where"' not in page
