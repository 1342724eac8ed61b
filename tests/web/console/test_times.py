"""Times that people enter: by the clock of their zone, and in addresses with their offset."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from django.http import QueryDict
from django.utils import timezone
from rest_framework.exceptions import ValidationError

from apps.alerts.forms import SilenceForm
from apps.console.pages.groupoffsets import ResetForm
from apps.console.pages.times import entered_time_ms, field_value
from apps.core.moments import ms_of
from apps.core.zones import zone_named
from apps.messages import asked
from apps.messages.asked import Meaning
from apps.messages.forms import ProduceForm

NOON_MS = ms_of(datetime(2026, 1, 31, 12, tzinfo=UTC))


@pytest.fixture
def in_shanghai() -> Iterator[None]:
    with timezone.override(zone_named("Asia/Shanghai")):
        yield


def entered(text: str) -> QueryDict:
    query = QueryDict(mutable=True)
    query["from"] = text
    return query


@pytest.mark.usefixtures("in_shanghai")
def test_a_time_without_an_offset_is_by_the_viewers_clock() -> None:
    query = entered("2026-01-31T20:00")

    assert entered_time_ms(query, "from") == NOON_MS
    assert query["from"] == "2026-01-31T20:00:00+08:00"


@pytest.mark.usefixtures("in_shanghai")
@pytest.mark.parametrize(
    "text", ["2026-01-31T12:00:00Z", "2026-01-31T14:00:00+02:00", str(NOON_MS)]
)
def test_a_time_with_an_offset_is_what_it_says(text: str) -> None:
    query = entered(text)

    assert entered_time_ms(query, "from") == NOON_MS
    assert query["from"] == text


def test_without_a_choice_it_is_utc() -> None:
    assert entered_time_ms(entered("2026-01-31T12:00"), "from") == NOON_MS


@pytest.mark.usefixtures("in_shanghai")
@pytest.mark.parametrize("text", ["soon", "2026-13-01T00:00", "\x00", "9" * 400])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        entered_time_ms(entered(text), "from")


def test_an_hour_that_the_clock_shows_twice_is_the_first_one() -> None:
    with timezone.override(zone_named("Europe/Berlin")):
        at_ms = entered_time_ms(entered("2026-10-25T02:30"), "from")

    assert at_ms == ms_of(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))


@pytest.mark.usefixtures("in_shanghai")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-01-31T20:00", "2026-01-31T20:00"),
        ("2026-01-31T12:00:00Z", "2026-01-31T20:00:00"),
        ("2026-01-31T05:00:00-07:00", "2026-01-31T20:00:00"),
        ("soon", "soon"),
        ("", ""),
    ],
)
def test_a_field_shows_the_time_of_an_address_by_the_viewers_clock(text: str, shown: str) -> None:
    assert field_value(entered(text), "from") == shown


def test_a_day_to_search_is_a_day_of_the_viewers_clock() -> None:
    found = asked.read("2026-10-25", Meaning.TIME, zone=zone_named("Europe/Berlin"))

    assert found.from_ms == ms_of(datetime(2026, 10, 24, 22, tzinfo=UTC))
    # The clock went back that day: it had 25 hours.
    assert found.to_ms == ms_of(datetime(2026, 10, 25, 23, tzinfo=UTC))


def test_a_time_to_search_keeps_its_own_offset() -> None:
    zone = zone_named("Asia/Shanghai")

    assert asked.read("2026-01-31 12:00 UTC", zone=zone).from_ms == NOON_MS
    assert asked.read("2026-01-31T20:00", zone=zone).from_ms == NOON_MS
    assert asked.read("2026-01-31T12:00").from_ms == NOON_MS


@pytest.mark.usefixtures("in_shanghai")
def test_a_silence_is_from_and_until_what_the_viewers_clock_shows() -> None:
    form = SilenceForm(
        {
            "scope": "any", "minutes": "60", "reason": "work",
            "starts_at": "2026-01-31T20:00", "ends_at": "2026-01-31T21:00",
        }
    )  # fmt: skip
    assert form.is_valid(), form.errors

    terms = form.terms(now_ms=0)

    assert (terms.starts_ms, terms.ends_ms) == (NOON_MS, NOON_MS + 3_600_000)


@pytest.mark.usefixtures("in_shanghai")
def test_offsets_are_reset_to_what_the_viewers_clock_shows() -> None:
    form = ResetForm({"target": "time", "time": "2026-01-31T20:00"})
    assert form.is_valid(), form.errors

    assert form.wanted().time_ms == NOON_MS


@pytest.mark.usefixtures("in_shanghai")
def test_a_message_is_due_at_what_the_viewers_clock_shows() -> None:
    form = ProduceForm({"body": "b", "delay": "at", "delay_value": "2026-01-31T20:00"})
    assert form.is_valid(), form.errors

    (draft,) = form.cleaned_data["drafts"]

    assert draft.deliver_at_ms == NOON_MS
