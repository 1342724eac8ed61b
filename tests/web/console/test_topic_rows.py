"""Rows of topics: still ones are those of before, and never wrong."""

from collections.abc import Hashable

from apps.console.rates import RateWindow
from apps.console.topicrows import SENT, TopicRow, TopicRows
from apps.engine.litetypes import LiteTotal
from apps.engine.types import QueueRange, TopicSpec

_SPEC = TopicSpec(name="orders", queue_count=2)


class _Readings:
    """Takes one reading a second of a topic's two queues."""

    def __init__(self) -> None:
        self._rows, self._rates = TopicRows(), RateWindow()
        self._at_ms = 0
        self._told: dict[int, QueueRange] = {}

    def take(self, *max_offsets: int, in_lites: LiteTotal | None = None, **more: int) -> TopicRow:
        self._at_ms += 1_000
        ranges = [self._range(number, end, **more) for number, end in enumerate(max_offsets)]
        numbers: dict[Hashable, int] = {
            (SENT, "orders", one.queue): one.max_offset for one in ranges
        }
        if in_lites is not None:
            numbers[SENT, "orders", None] = in_lites.came
        self._rates.add(self._at_ms, numbers)
        (row,) = self._rows.take(
            [(_SPEC, ranges)],
            self._rates,
            in_lites={} if in_lites is None else {"orders": in_lites},
            now_ms=self._at_ms,
        )
        return row

    def _range(self, number: int, end: int, **more: int) -> QueueRange:
        told = self._told.get(number)
        if told is None or told.max_offset != end or more:
            told = QueueRange(topic="orders", queue=number, min_offset=0, max_offset=end, **more)
            self._told[number] = told
        return told


def test_a_topic_that_stands_still_keeps_its_row_once_its_rates_are_zero() -> None:
    readings = _Readings()
    readings.take(0, 0)
    rows = [readings.take(500, 0) for _ in range(12)]

    assert rows[0]["send_rate"] == 500
    assert rows[-1]["send_rate"] == 0
    assert rows[-1] is rows[-2]
    assert all(row is not rows[-1] for row in rows if row["send_rate"])


def test_a_message_in_a_still_topic_is_seen_at_once() -> None:
    readings = _Readings()
    for _ in range(12):
        readings.take(7, 0)

    row = readings.take(7, 1)

    assert row["queues"] is not None
    assert [queue["max_offset"] for queue in row["queues"]] == [7, 1]
    assert row["held"] == 8
    assert row["send_rate"] is not None
    assert row["send_rate"] > 0


def test_a_new_topic_has_an_unknown_rate_and_then_none() -> None:
    readings = _Readings()

    assert [readings.take(3, 3)["send_rate"] for _ in range(3)] == [None, 0, 0]


def test_the_age_of_a_compaction_goes_on_in_a_still_topic() -> None:
    readings = _Readings()
    ages = [
        readings.take(5, 5, kept_messages=5, compacted_ms=1, covered=5)["compacted_age_s"]
        for _ in range(12)
    ]

    assert ages == sorted(set(ages))


def test_what_lite_topics_take_and_hold_is_their_parents() -> None:
    readings = _Readings()
    readings.take(0, 0, in_lites=LiteTotal(came=0, held=5))

    row = readings.take(0, 0, in_lites=LiteTotal(came=2_000, held=2_005))
    still = [readings.take(0, 0, in_lites=LiteTotal(came=2_000, held=2_005)) for _ in range(12)]
    again = readings.take(0, 0, in_lites=LiteTotal(came=2_001, held=2_006))

    assert (row["send_rate"], row["held"]) == (2_000, 2_005)
    assert still[-1]["send_rate"] == 0
    assert still[-1] is still[-2]
    assert again["held"] == 2_006
    assert again["send_rate"] is not None
    assert again["send_rate"] > 0


def test_a_parent_whose_queues_are_not_made_holds_what_its_lite_topics_do() -> None:
    (row,) = TopicRows().take(
        [(_SPEC, None)],
        RateWindow(),
        in_lites={"orders": LiteTotal(came=1, held=7)},
        now_ms=1_000,
    )

    assert (row["held"], row["send_rate"], row["queues"]) == (7, None, None)
