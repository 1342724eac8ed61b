"""Cells of the admin say durations, sizes, figures and JSON as people read them."""

import pytest
from django.contrib.auth.models import Permission, User
from django.db import models
from django.test import Client
from django.utils import translation

from apps.alerts.models import AlertRule
from apps.clockwork.models import TaskState
from apps.core.admincells import broken, figure, in_words, lines_of
from apps.deadletters.models import DeadLetter
from apps.delays.models import DelayLevel
from apps.groups.models import ConsumerGroup, Member
from apps.metrics.models import StoreSample
from apps.topics.models import Topic
from tests.web.admin.rows import made
from tests.web.admin.test_every_model import address
from tests.web.console.test_pages import parsed


def cell(row: models.Model, name: str) -> tuple[str, str]:
    (shown,) = in_words(type(row), [name])
    # A number and its unit stay on one line.
    return str(shown.short_description), str(shown(row)).replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("row", "name", "said"),
    [
        (DelayLevel(delay_ms=1_800_000), "delay_ms", ("Delay", "30 min")),
        (DelayLevel(late_ms=None), "late_ms", ("Late by", "-")),
        (TaskState(last_duration_ms=10), "last_duration_ms", ("Last duration", "10 ms")),
        (StoreSample(log_bytes=5 << 20), "log_bytes", ("Log", "5.0 MiB")),
        (StoreSample(send_rate=29.98333), "send_rate", ("Sent a second", "30")),
        (Member(topics=["a", "b"]), "topics", ("Topics", "a, b")),
        (Member(topics=[]), "topics", ("Topics", "-")),
    ],
)
def test_a_raw_field_is_a_column_in_words(
    row: models.Model, name: str, said: tuple[str, str]
) -> None:
    assert cell(row, name) == said


def test_other_fields_and_columns_are_left_as_they_are() -> None:
    def own(row: models.Model) -> str:
        return str(row)

    assert in_words(AlertRule, ["name", "pending_s", "name_said", own]) == [
        "name", "pending_s", "name_said", own,
    ]  # fmt: skip


def test_a_unit_is_left_out_of_the_name_in_chinese_too() -> None:
    (shown,) = in_words(DelayLevel, ["delay_ms"])
    with translation.override("zh-hans"):
        assert str(shown.short_description) == "延时"


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0"), (0.123456, "0.123"), (5.4939, "5.49"), (1234.5, "1,234"), (-250.4, "-250")],
)
def test_figures_have_the_digits_that_are_read(value: float, said: str) -> None:
    assert figure(value) == said


def test_json_is_lines_and_what_is_in_it_is_no_markup() -> None:
    assert lines_of({"a": None, "b<": [1, "<i>"]}) == (
        "<div>a: -</div><div>b&lt;: 1, &lt;i&gt;</div>"
    )
    assert lines_of([{"count": 2, "trouble": ""}]) == "<div>count 2</div>"
    assert lines_of(["x", True]) == "x, true"
    assert broken([str(number) for number in range(52)]).count("<div>") == 51
    assert "and 2 more" in broken([str(number) for number in range(52)])


@pytest.mark.django_db
def test_failures_of_a_letter_are_a_line_each(client: Client) -> None:
    client.force_login(User.objects.create_superuser("chief"))
    letter = made(DeadLetter, 1)
    DeadLetter.objects.update(history=[[1, 1_767_225_600_000, "<b>late</b>", "c1"], [2, 0, "", ""]])

    page = client.get(address(DeadLetter, "change", letter.pk)).content.decode()

    assert "2026-01-01 00:00:00, attempt 1: &lt;b&gt;late&lt;/b&gt; — c1" in page
    assert "1970-01-01 00:00:00, attempt 2: (none given)" in page


@pytest.mark.django_db
@pytest.mark.parametrize("model", [Topic, ConsumerGroup])
def test_who_may_only_look_reads_a_topic_and_a_group_without_a_form(
    client: Client, model: type[models.Model]
) -> None:
    looker = User.objects.create_user("looker", is_staff=True)
    looker.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client.force_login(looker)
    row = made(model, 1)
    name = "retention_ms" if model is Topic else "access_lock_ms"
    model._default_manager.update(**{name: 180_000})

    page = parsed(client.get(address(model, "change", row.pk)))

    texts = " ".join(page.texts).replace("\N{NO-BREAK SPACE}", " ")
    assert "3 min" in texts
    assert "None" not in page.texts
    assert "Drain" not in texts


@pytest.mark.django_db
def test_a_filter_is_open_where_something_is_chosen_in_it(client: Client) -> None:
    client.force_login(User.objects.create_superuser("chief"))
    made(Topic, 1)

    opened = {
        query: sum("open" in one for one in parsed(client.get(
            f"{address(Topic, 'changelist')}{query}")).all("details"))
        for query in ("", "?type__exact=FIFO")
    }  # fmt: skip

    assert opened == {"": 0, "?type__exact=FIFO": 1}
