"""The drawing of a message's life: what its scale says, however short the life is."""

import pytest

from apps.console.lifeplot import drawing
from apps.messages.life import Event, Kind, Source


@pytest.mark.parametrize(
    ("took_ms", "ticks"),
    [
        (1, ["+0 ms", "+1 ms"]),
        (3, ["+0 ms", "+1 ms", "+2 ms", "+3 ms"]),
        (400, ["+0 ms", "+100 ms", "+200 ms", "+300 ms", "+400 ms"]),
    ],
)
def test_no_moment_has_two_ticks(took_ms: int, ticks: list[str]) -> None:
    events = [
        Event(kind=Kind.STORED, source=next(iter(Source)), at_ms=at_ms)
        for at_ms in (1_000, 1_000 + took_ms)
    ]

    found = drawing(events, message_name="message")

    assert found is not None
    assert [text.replace("\u00a0", " ") for _, text in found.ticks] == ticks
