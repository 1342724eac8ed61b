"""The admin of the statistics: to look at, however many rows there are."""

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.core import admin as core_admin
from apps.core.moments import moment
from apps.metrics.models import GroupSummary, TopicSummary
from tests.web.metrics.fakes import START_MS, group_sample, store_sample, topic_sample

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser() -> Client:
    """Return a browser in which an administrator has signed in."""
    user = get_user_model().objects.create_superuser("root", password="x")
    client = Client()
    client.force_login(user)
    return client


KINDS = ["topicsample", "groupsample", "storesample", "topicsummary", "groupsummary"]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_shown_and_cannot_be_changed(browser: Client, kind: str) -> None:
    topic_sample(START_MS, "orders").save()
    group_sample(START_MS, "billing", "orders").save()
    store_sample(START_MS).save()
    for summary in (TopicSummary, GroupSummary):
        summary.objects.create(name="one", sampled_at=moment(START_MS))

    answer = browser.get(f"/admin/metrics/{kind}/")

    assert answer.status_code == 200
    assert "1 " in answer.content.decode()
    assert browser.get(f"/admin/metrics/{kind}/add/").status_code == 403


def test_a_search_is_for_a_whole_name(browser: Client) -> None:
    for topic in ("orders", "orders2"):
        topic_sample(START_MS, topic).save()

    page = browser.get("/admin/metrics/topicsample/", {"q": "orders"}).content.decode()

    assert ">orders<" in page
    assert "orders2" not in page


def test_rows_are_not_counted_beyond_what_is_shown(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_admin, "ROWS_SHOWN_MAX", 3)
    for number in range(5):
        topic_sample(START_MS, f"topic{number}").save()

    with CaptureQueriesContext(connection) as queries:
        page = browser.get("/admin/metrics/topicsample/").content.decode()

    counts = [query["sql"] for query in queries.captured_queries if "COUNT(" in query["sql"]]
    assert "3 topic samples" in page
    assert counts
    assert all("LIMIT 3" in count for count in counts)
