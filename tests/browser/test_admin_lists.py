"""Lists of the admin fit a desk's window: what is too much for a row is on the row's page.

No product is needed: each list is made as the admin makes it, of rows as long as people have them.
"""

import mimetypes
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.db import IntegrityError, models, transaction
from django.test import Client

from apps.core.languages import LANGUAGE_COOKIE, Language
from tests.browser.chinese import widen
from tests.browser.conftest import WIDE, new_page
from tests.web.admin.rows import made
from tests.web.admin.test_every_model import ONE_ROW, REGISTERED, address, label

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.browser, pytest.mark.django_db]

ROWS = 3
HOST = "http://admin.test"
# What a column holds when it is as long as it often is, by the end of its field's name.
PLAUSIBLE = {
    "owner": "till-12@4711#7dd96ff7",
    "client": "till-12@4711#7dd96ff7",
    "client_id": "till-12@4711#7dd96ff7",
    "worker": "spark@till-12:4711",
    "by": "maria.huber",
    "path": "silver/messages/topic=orders/day=2026-01-01/part-00000-c000.zstd.parquet",
    "reason": "connection to bank-gateway.internal timed out after 30 seconds",
    "error": "connection to bank-gateway.internal timed out after 30 seconds",
    "note": "we look into it since the morning",
    "topic": "inventory-adjustments",
    "group": "warehouse-pickers",
    "subject": "warehouse-pickers",
    "target": "inventory-adjustments",
    "store_id": "213e269ccc0d3ba38eaf7ca37d38c3eb",
    "message_id": "7F00000159554804D7DD3B90223C0085",
    "sharding_key": "order-4711",
    "key": "order-4711",
    "job": "duplicates",
}
BIG = 1_204_311


@pytest.fixture(scope="session", autouse=True)
def asked_beside_a_browser() -> Iterator[None]:
    """Let Django ask its database in the thread in which Playwright has its loop.

    It is in force before the database is made, which is once for all tests of a run.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


def lengthen(row: models.Model) -> None:
    """Give a row what people have in such fields, as far as its rules let it."""
    for field in row._meta.concrete_fields:
        if (value := _plausible(field, row)) is None:
            continue
        with suppress(IntegrityError), transaction.atomic():
            type(row)._default_manager.filter(pk=row.pk).update(**{field.name: value})


def _plausible(field: Any, row: models.Model) -> object:
    if field.primary_key or field.is_relation or field.choices:
        return None
    if isinstance(field, models.CharField | models.TextField):
        ends = (end for end in PLAUSIBLE if field.name == end or field.name.endswith(f"_{end}"))
        longest = max(ends, key=len, default=None)
        text = None if longest is None else PLAUSIBLE[longest]
        return text if text is None or not field.unique else f"{text}-{row.pk}"
    if isinstance(field, models.BigIntegerField):
        return BIG
    return None


def serve(page: "Page", document: str) -> None:
    """Open a document as if a server had it, with the files of the admin beside it."""

    def answer(route: "Route") -> None:
        path = urlsplit(route.request.url).path
        if path == "/":
            route.fulfill(body=document, content_type="text/html; charset=utf-8")
        elif path.startswith("/static/") and (found := finders.find(path.removeprefix("/static/"))):
            kind = mimetypes.guess_type(str(found))[0] or "text/plain"
            route.fulfill(body=Path(str(found)).read_bytes(), content_type=kind)
        else:
            route.fulfill(status=404)

    page.route("**/*", answer)
    page.goto(f"{HOST}/")


def too_wide(page: "Page") -> int:
    """Return by how many pixels a list is wider than its place, or the page than its window."""
    wider: int = page.evaluate(
        """() => Math.max(...[document.documentElement, ...document.querySelectorAll(".results")]
        .map((one) => one.scrollWidth - one.clientWidth))"""
    )
    return wider


@pytest.fixture(scope="module")
def desk(browser: "Browser") -> "Iterator[Page]":
    width, height = WIDE
    page = new_page(browser, viewport={"width": width, "height": height})
    yield page
    page.context.close()


admin.autodiscover()


@pytest.mark.parametrize("model", REGISTERED, ids=label)
def test_a_list_of_the_admin_fits_a_desk(
    model: type[models.Model], client: Client, desk: "Page"
) -> None:
    client.force_login(User.objects.create_superuser("chief"))
    for number in range(1 if label(model) in ONE_ROW else ROWS):
        lengthen(made(model, number))

    wrong = {}
    for language in Language:
        client.cookies[LANGUAGE_COOKIE] = language.value
        page = client.get(address(model, "changelist")).content.decode()
        assert 'id="result_list"' in page
        desk.unroute_all()
        serve(desk, page)
        if language is Language.CHINESE:
            widen(desk)
        if (wider := too_wide(desk)) > 0:
            wrong[language.value] = wider
    assert wrong == {}
