"""What is done from the admin: asked first with a count, and carried out by services."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from apps.access.models import ApiToken
from apps.groups.models import ConsumerOffset
from tests.web.admin.rows import made
from tests.web.console.test_pages import parsed
from tests.web.fake_care import delayed_message
from tests.web.fake_engine import FakeEngine

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def chief(client: Client) -> Client:
    """Return the browser of somebody who may do everything."""
    client.force_login(User.objects.create_superuser("chief"))
    return client


@pytest.fixture
def looker(client: Client) -> Client:
    """Return the browser of somebody who may come in and look, and no more."""
    from django.contrib.auth.models import Permission

    account = User.objects.create_user("looker", is_staff=True)
    account.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client.force_login(account)
    return client


def texts(answer: Any) -> str:
    return " ".join(parsed(answer).texts)


def test_tokens_are_revoked_after_a_page_that_counts_those_still_valid(chief: Client) -> None:
    valid, over = made(ApiToken, 1), made(ApiToken, 2)
    ApiToken.objects.filter(pk=over.pk).update(revoked_at=NOW, revoked_by="before")
    chosen = {"action": "revoke", "_selected_action": [valid.pk, over.pk]}

    page = chief.post("/admin/access/apitoken/", chosen)

    assert "1 row is chosen." in texts(page)
    assert ApiToken.objects.get(pk=valid.pk).revoked_at is None
    chief.post("/admin/access/apitoken/", {**chosen, "apply": "1"})
    assert ApiToken.objects.get(pk=valid.pk).revoked_by == "chief"
    assert ApiToken.objects.get(pk=over.pk).revoked_by == "before"


def test_a_whole_list_that_was_chosen_is_carried_on_as_such(chief: Client) -> None:
    tokens = [made(ApiToken, number) for number in range(60)]
    chosen = {"action": "revoke", "_selected_action": [tokens[0].pk], "select_across": "1"}

    page = chief.post("/admin/access/apitoken/", chosen)
    chief.post("/admin/access/apitoken/", {**chosen, "apply": "1"})

    assert "60 rows are chosen." in texts(page)
    assert "and 40 more" in texts(page)
    assert not ApiToken.objects.filter(revoked_at=None).exists()


def test_a_reset_of_offsets_leads_to_the_preview_of_the_one_group(chief: Client) -> None:
    first, second = made(ConsumerOffset, 1), made(ConsumerOffset, 2)
    ConsumerOffset.objects.update(group="billing")
    chosen = {"action": "reset", "_selected_action": [first.pk, second.pk]}

    answer = chief.post("/admin/groups/consumeroffset/", chosen)

    assert answer["Location"] == "/groups/billing/offsets/"
    ConsumerOffset.objects.filter(pk=second.pk).update(group="other")
    assert "of one group" in texts(chief.post("/admin/groups/consumeroffset/", chosen, follow=True))


HELD = "/admin/delays/delaylevel/held/"


def test_messages_that_wait_are_listed_from_the_broker_and_linked_from_the_rows(
    chief: Client, engine: FakeEngine
) -> None:
    engine.waiting = [delayed_message(number) for number in (1, 2)]

    page = chief.get(HELD)

    assert {"id-1", "id-2"} <= set(parsed(page).texts)
    links = [link["href"] for link in parsed(chief.get("/admin/delays/delaylevel/")).all("a")]
    assert HELD in links


def test_a_cancellation_is_asked_with_a_count_and_then_told(
    chief: Client, engine: FakeEngine
) -> None:
    engine.waiting = [delayed_message(number) for number in (1, 2)]
    chosen = {"act": "cancel", "key": ["handle-1", "handle-2"]}

    asked = chief.post(HELD, chosen)

    assert "2 messages are chosen." in texts(asked)
    assert len(engine.waiting) == 2
    told = chief.post(HELD, {**chosen, "apply": "1"}, follow=True)
    assert "The message is cancelled: nobody gets it." in texts(told)
    assert engine.waiting == []


def test_who_may_only_look_is_offered_no_act_and_refused_one(
    looker: Client, engine: FakeEngine
) -> None:
    engine.waiting = [delayed_message(1)]

    page = looker.get(HELD)

    assert page.status_code == 200
    assert not [box for box in parsed(page).all("input") if box.get("name") == "key"]
    assert looker.post(HELD, {"act": "cancel", "key": "handle-1", "apply": "1"}).status_code == 403
    assert len(engine.waiting) == 1


@pytest.mark.parametrize("said", [{}, {"act": "nonsense", "key": "handle-1"}, {"act": "cancel"}])
def test_what_is_no_act_does_nothing(
    chief: Client, engine: FakeEngine, said: dict[str, str]
) -> None:
    engine.waiting = [delayed_message(1)]

    assert chief.post(HELD, {**said, "apply": "1"}).status_code == 302
    assert len(engine.waiting) == 1


def test_undecided_transactions_are_listed_and_one_that_is_gone_is_said_to_be(
    chief: Client, engine: FakeEngine
) -> None:
    page = chief.get("/admin/transactions/transactiondecision/held/")
    told = chief.post(
        "/admin/transactions/transactiondecision/held/",
        {"act": "commit", "key": "7", "apply": "1"},
        follow=True,
    )

    assert "No transaction waits for a decision." in texts(page)
    assert "it is not pending any more" in texts(told)
