"""Who may look into one topic or group is told of a message's life there, and nowhere else."""

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from apps.access import accounts
from apps.access.policy import Role
from tests.access.conftest import closed
from tests.web.messages.conftest import Log
from tests.web.messages.test_trace import tell

__all__ = ["closed"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("closed")]


def person(*held: tuple[str, str, str], role: Role = Role.NONE) -> Client:
    accounts.create_account(name="pia", password="Correct horse 1", role=role, by="t")
    for kind, action, resource in held:
        accounts.add_grant(
            name="pia", kind=kind, actions=[action], match="literal", resource=resource, by="t"
        )
    client = Client()
    client.force_login(get_user_model().objects.get(username="pia"))
    return client


@pytest.fixture
def poison(log: Log) -> str:
    """A message of orders that two groups told of, and that is a dead letter of one."""
    message_id = log.send(b"poison")
    tell(log, message_id, group="audit")
    log.fail(level=-1, reason="it broke")
    return message_id


def events(client: Client, message_id: str) -> set[tuple[str, str | None]]:
    answer = client.get(f"/api/v1/messages/{message_id}/trace?topic=orders")
    assert answer.status_code == 200, answer.content
    return {(one["kind"], one["group"]) for one in answer.json()["events"]}


def gaps(client: Client, message_id: str) -> set[str]:
    answer = client.get(f"/api/v1/messages/{message_id}/trace?topic=orders")
    return {one["code"] for one in answer.json()["unknown"]}


OF_THE_TOPIC = {("made", None), ("stored", None)}
OF_BILLING = {("failed", "billing"), ("dead", "billing")}
OF_AUDIT = {("worked", "audit")}


def test_who_may_look_into_the_topic_alone_is_told_what_happened_there(poison: str) -> None:
    client = person(("topic", "peek", "orders"))

    assert events(client, poison) == OF_THE_TOPIC
    assert "not_shown" in gaps(client, poison)


def test_what_a_group_did_is_told_to_who_may_look_into_the_group(poison: str) -> None:
    client = person(("topic", "peek", "orders"), ("group", "peek", "billing"))

    assert events(client, poison) == OF_THE_TOPIC | OF_BILLING
    assert "not_shown" in gaps(client, poison)


def test_who_may_look_into_all_is_told_all_and_that_nothing_is_left_out(poison: str) -> None:
    client = person(role=Role.ADMIN)

    assert events(client, poison) == OF_THE_TOPIC | OF_BILLING | OF_AUDIT
    assert "not_shown" not in gaps(client, poison)


@pytest.mark.parametrize("asked", ["", "?topic=orders"])
def test_a_message_of_a_topic_that_one_may_not_know_of_is_as_none(poison: str, asked: str) -> None:
    client = person(("topic", "peek", "other"))

    by_api = client.get(f"/api/v1/messages/{poison}/trace{asked}")
    unknown = client.get(f"/api/v1/messages/nobody-sent-this/trace{asked}")
    page = client.get(f"/messages/{poison}/trace{asked}")

    assert (by_api.status_code, page.status_code) == (404, 404)
    assert unknown.status_code == 404
    assert "it broke" not in page.content.decode()


def test_who_may_only_see_the_topic_is_told_so(poison: str) -> None:
    client = person(("topic", "peek", "other"), ("topic", "get", "orders"))

    answer = client.get(f"/api/v1/messages/{poison}/trace?topic=orders")

    assert answer.status_code == 403
    assert answer.json()["code"] == "forbidden"


def test_the_page_says_that_some_of_it_is_not_shown(poison: str) -> None:
    client = person(("topic", "peek", "orders"))

    page = client.get(f"/messages/{poison}/trace?topic=orders").content.decode()

    assert "that you may not look into is not shown" in page
    assert "it broke" not in page
    assert "audit" not in page
