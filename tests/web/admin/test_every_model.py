"""Every model in the admin: registered or left out on purpose, opens, and asks few questions."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import models
from django.test import Client
from django.urls import reverse

from apps.access.models import ApiToken, Grant
from apps.groups.models import ConsumerGroup
from apps.topics.models import Topic
from tests.web.admin.rows import made

pytestmark = pytest.mark.django_db

admin.autodiscover()
REGISTERED = sorted(admin.site._registry, key=lambda model: model._meta.label)

LEFT_OUT = {
    "access.AccessVersion": "one number, which services raise",
    "access.RecoveryCode": "a secret's digest",
    "access.AccountRole": "a part of the account's form",
    "admin.LogEntry": "the audit log says more, and cannot be changed",
    "auth.Group": "groups of permissions decide nothing here",
    "auth.Permission": "permissions decide nothing here",
    "contenttypes.ContentType": "Django's own",
    "pipelines.PipelineWorker": "the page of pipelines shows who is there",
    "sessions.Session": "what is in it is a secret",
    "topics.CatalogVersion": "one number, which services raise",
}

# Models of a single row, by their own rule.
ONE_ROW = {"alerts.Watch"}

# Rows that people change here; of all others the log, a task or another page is the master.
CHANGED_HERE = {"access.Grant", "auth.User", "groups.ConsumerGroup", "topics.Topic"}


def label(model: type[models.Model]) -> str:
    return model._meta.label


def address(model: type[models.Model], what: str, *parts: object) -> str:
    meta = model._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{what}", args=parts)


@pytest.fixture
def chief(client: Client) -> Client:
    """Return the browser of somebody who may do everything."""
    client.force_login(User.objects.create_superuser("chief"))
    return client


def test_every_model_is_registered_or_left_out_on_purpose() -> None:
    known = {label(model) for model in apps.get_models()}

    assert known - {label(model) for model in REGISTERED} == set(LEFT_OUT)


def test_only_what_people_decide_is_changed_here(rf: Any) -> None:
    request = rf.get("/admin/")
    request.user = User(username="chief", is_superuser=True, is_staff=True, is_active=True)

    changed = {
        label(model)
        for model, page in admin.site._registry.items()
        if page.has_change_permission(request)
    }

    assert changed == CHANGED_HERE


@pytest.mark.parametrize("model", REGISTERED, ids=label)
def test_a_list_is_counted_cheaply_filtered_and_searched(model: type[models.Model]) -> None:
    page = admin.site._registry[model]

    assert len(page.list_display) > 1 or page.get_list_display.__func__ is not None  # type: ignore[attr-defined]
    if label(model) != "auth.User":
        assert page.show_full_result_count is False


@pytest.mark.parametrize("model", REGISTERED, ids=label)
def test_a_list_asks_as_many_questions_for_twenty_rows_as_for_two(
    model: type[models.Model], chief: Client, django_assert_max_num_queries: Any
) -> None:
    def questions() -> int:
        with django_assert_max_num_queries(1_000) as asked:
            answer = chief.get(address(model, "changelist"))
        assert answer.status_code == 200
        return len(asked)

    rows = 1 if label(model) in ONE_ROW else 2
    for number in range(rows):
        made(model, number)
    # The first visit warms caches of content types.
    questions()
    with_two = questions()
    for number in range(rows, 1 if label(model) in ONE_ROW else 20):
        made(model, number)

    assert questions() <= with_two


@pytest.mark.parametrize("model", REGISTERED, ids=label)
def test_the_page_of_a_row_opens(model: type[models.Model], chief: Client) -> None:
    row = made(model, 1)

    answer = chief.get(address(model, "change", row.pk))

    assert answer.status_code == 200, answer.headers
    assert str(row)[:20] in answer.content.decode() or label(model) in CHANGED_HERE


@pytest.mark.parametrize("model", REGISTERED, ids=label)
def test_a_search_and_a_bad_page_number_are_borne(model: type[models.Model], chief: Client) -> None:
    made(model, 1)

    assert chief.get(address(model, "changelist"), {"q": "' OR 1=1 --"}).status_code == 200
    assert chief.get(address(model, "changelist"), {"p": "99999"}).status_code in (200, 302)


@pytest.mark.parametrize("model", [Grant, ConsumerGroup, Topic, User], ids=label)
def test_a_form_to_add_one_opens(model: type[models.Model], chief: Client) -> None:
    assert chief.get(address(model, "add")).status_code == 200


@pytest.mark.parametrize(
    "model", [model for model in REGISTERED if label(model) not in CHANGED_HERE], ids=label
)
def test_nothing_is_added_where_something_else_is_the_master(
    model: type[models.Model], chief: Client
) -> None:
    assert chief.get(address(model, "add")).status_code == 403


def test_somebody_who_is_not_signed_in_sees_no_list(client: Client) -> None:
    answer = client.get(address(ApiToken, "changelist"))

    assert answer.status_code in (302, 401, 403)
