"""The admin in Chinese: nothing that names a model, a column or a choice is left in English."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import models
from django.test import Client
from django.utils import translation

from apps.alerts.models import AlertRule
from tests.web.admin.rows import made
from tests.web.admin.test_every_model import REGISTERED, address, label

pytestmark = pytest.mark.django_db

# Words that stay as they are in Chinese, and why.
STAYS = {
    "ID": "read so in Chinese, too",
    "URL": "read so in Chinese, too",
    "API": "read so in Chinese, too",
    "CRC-32": "the name of a checksum",
    "Tag": "RocketMQ's word for it, which its users write in English",
    "Key": "RocketMQ's word for it, which its users write in English",
    "Worker": "the processes' own word, as on the console",
    "Beat": "the processes' own word, as on the console",
    "Slack": "a name",
    "Webhook": "read so in Chinese, too",
    "SQL92": "the name of a language",
    "FIFO": "RocketMQ's name of a type",
    "mqweb": "the product",
}
_ENGLISH = re.compile(r"[A-Za-z][A-Za-z-]+\d*")


@pytest.fixture
def chief(client: Client) -> Client:
    """Return the browser of somebody who may do everything, and reads Chinese."""
    client.force_login(User.objects.create_superuser("chief"))
    client.defaults["HTTP_ACCEPT_LANGUAGE"] = "zh-CN"
    return client


def is_english(text: str) -> bool:
    """Say whether a text has words of English, and none of Chinese."""
    words = [word for word in _ENGLISH.findall(text) if word not in STAYS]
    return bool(words) and not re.search(r"[\u4e00-\u9fff]", text)


class Labels(HTMLParser):
    """What a page of the admin calls things: headings, columns, filters, labels and buttons."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[bool] = []
        self._void = {"input", "br", "img", "link", "meta", "hr", "use", "path"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self._void:
            values = dict(attrs)
            if values.get("type") == "submit":
                self.found.append(values.get("value") or "")
            return
        classes = (dict(attrs).get("class") or "").split()
        is_label = tag in ("h1", "h2", "h3", "label", "caption", "summary", "option")
        is_column = tag == "th" and "column" in " ".join(classes)
        is_name = tag == "a" and bool({"section", "addlink", "changelink", "viewlink"} & {*classes})
        is_text = bool({"help", "search_help_text"} & {*classes})
        self._open.append(is_label or is_column or is_name or is_text)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._void and self._open:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if any(self._open) and data.strip():
            self.found.append(data.strip())


def labels(answer: Any) -> list[str]:
    assert answer.status_code == 200
    found = Labels()
    found.feed(answer.content.decode())
    return found.found


def values_of(row: models.Model) -> set[str]:
    """Return the texts of a row, which are nobody's to translate."""
    texts = {str(row)}
    for field in row._meta.concrete_fields:
        texts.add(str(field.value_from_object(row)))
    return texts


def english_in(answer: Any, rows: Iterator[models.Model] | list[models.Model]) -> list[str]:
    own = {"chief", "----------", "---------"}
    for row in rows:
        own |= values_of(row)
    return [text for text in labels(answer) if is_english(text) and text not in own]


def test_a_text_in_english_is_found() -> None:
    assert is_english("Api tokens")
    assert is_english("late by (ms)")
    assert not is_english("客户端 ID")
    assert not is_english("ID")


@pytest.mark.parametrize("model", REGISTERED, ids=label)
def test_a_model_its_columns_and_its_choices_have_names_in_chinese(
    model: type[models.Model],
) -> None:
    with translation.override("zh-hans"):
        meta = model._meta
        names = [str(meta.verbose_name), str(meta.verbose_name_plural)]
        names.append(str(apps.get_app_config(meta.app_label).verbose_name))
        for field in meta.get_fields():
            if not getattr(field, "concrete", False) or field.name == "id":
                continue
            names.append(str(field.verbose_name))
            names.append(str(field.help_text))
            names += [str(said) for _value, said in field.flatchoices]

    assert [name for name in names if is_english(name)] == []


def test_plurals_are_written_and_not_guessed() -> None:
    ours = [model for model in REGISTERED if model.__module__.startswith("apps.")]
    with translation.override("en"):
        bare = [
            label(model)
            for model in ours
            if "verbose_name_plural" not in model._meta.original_attrs
        ]

    assert bare == []


def test_the_index_is_in_chinese(chief: Client) -> None:
    assert english_in(chief.get("/admin/"), []) == []


@pytest.mark.parametrize("model", REGISTERED, ids=label)
def test_list_and_page_of_a_row_are_in_chinese(model: type[models.Model], chief: Client) -> None:
    row = made(model, 1)
    every = [*model._default_manager.all(), *User.objects.all()]

    with translation.override("zh-hans"):
        shown = english_in(chief.get(address(model, "changelist")), every)
        detail = english_in(chief.get(address(model, "change", row.pk)), every)

    assert (shown, detail) == ([], [])


@pytest.mark.parametrize(
    "model", ["access.Grant", "groups.ConsumerGroup", "topics.Topic", "auth.User"]
)
def test_a_form_to_add_one_is_in_chinese(model: str, chief: Client) -> None:
    found = apps.get_model(model)

    assert english_in(chief.get(address(found, "add")), list(User.objects.all())) == []


@pytest.mark.parametrize("app", ["delays/delaylevel", "transactions/transactiondecision"])
def test_what_the_broker_holds_is_listed_in_chinese(app: str, chief: Client, engine: Any) -> None:
    del engine

    assert english_in(chief.get(f"/admin/{app}/held/"), []) == []


def test_pages_of_confirmation_are_in_chinese(chief: Client, engine: Any) -> None:
    from apps.core.adminacts import Act, acts_of

    del engine
    seen = 0
    for model, page in admin.site._registry.items():
        acts = [name for name, act in acts_of(page).items() if isinstance(act, Act)]
        row = made(model, 50) if acts else None
        for name in acts:
            assert row is not None
            chosen = {"action": name, "_selected_action": [row.pk]}
            answer = chief.post(address(model, "changelist"), chosen)
            assert english_in(answer, [row]) == [], (model, name)
            seen += 1

    assert seen >= 10


def test_the_first_rules_are_read_in_chinese_and_kept_in_english(chief: Client) -> None:
    rule = AlertRule.objects.get(name="Disk is filling up")

    for page in ("/admin/alerts/alertrule/", "/alerts/rules", f"/alerts/rules/{rule.pk}"):
        assert "磁盘即将占满" in chief.get(page).content.decode(), page
    assert AlertRule.objects.get(pk=rule.pk).name == "Disk is filling up"


@pytest.mark.parametrize(
    ("app", "name"),
    [
        ("access", "0003_words"), ("alerts", "0003_words"), ("audit", "0004_words"),
        ("clockwork", "0002_words"), ("deadletters", "0003_words"), ("delays", "0002_words"),
        ("groups", "0008_words"), ("metrics", "0004_words"), ("pipelines", "0003_words"),
        ("topics", "0007_words"), ("transactions", "0004_words"),
    ],
)  # fmt: skip
def test_migrations_of_names_change_no_table(app: str, name: str) -> None:
    told = StringIO()

    call_command("sqlmigrate", app, name, stdout=told)

    lines = [line for line in told.getvalue().splitlines() if line and not line.startswith("--")]
    assert [line for line in lines if line not in ("BEGIN;", "COMMIT;")] == []
