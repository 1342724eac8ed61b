"""Who had a lock when, drawn: bars from grant to the next line, marks for how it ended."""

from apps.console.timeline import WIDTH, Line, Spell, timeline_of
from apps.engine.grouptypes import LockChange

ACQUIRED, TAKEN, RELEASED, FORCED = (
    LockChange.ACQUIRED, LockChange.TAKEN_OVER, LockChange.RELEASED, LockChange.FORCED,
)  # fmt: skip


def line(
    at_ms: int, change: LockChange, owner: str = "", before: str = "", *, queue: int = 0
) -> Line:
    return Line(
        at_ms=at_ms,
        place=("orders", queue),
        change=change,
        owner=owner,
        previous_owner=before,
        reason="poison" if change is FORCED else "",
    )


def test_a_bar_lasts_from_a_grant_to_the_next_line_about_the_lock() -> None:
    lines = [
        line(1_000, ACQUIRED, "a"),
        line(3_000, TAKEN, "b", "a"),
        line(6_000, FORCED, "", "b"),
        line(8_000, ACQUIRED, "a"),
    ]

    (lane,) = timeline_of(lines, from_ms=0, to_ms=10_000).lanes

    assert [(bar.owner, bar.x, bar.width, bar.colour) for bar in lane.bars] == [
        ("a", 100, 200, 0),
        ("b", 300, 300, 1),
        ("a", 800, 200, 0),
    ]
    assert [(mark.kind, mark.x) for mark in lane.marks] == [("taken_over", 300), ("forced", 600)]
    assert lane.marks[1].title.endswith("taken from b: poison")
    assert lane.owner == "a"


def test_a_lock_that_was_held_before_the_span_is_drawn_from_its_begin() -> None:
    lines = [line(-9_000, ACQUIRED, "a"), line(5_000, RELEASED, "", "a")]

    (lane,) = timeline_of(lines, from_ms=0, to_ms=10_000).lanes

    assert [(bar.x, bar.width) for bar in lane.bars] == [(0, 500)]
    assert [mark.kind for mark in lane.marks] == ["released"]
    assert lane.owner == ""


def test_what_was_over_before_the_span_is_not_drawn() -> None:
    lines = [line(-9_000, RELEASED, "", "a"), line(9_999, ACQUIRED, "b", queue=1)]

    first, second = timeline_of(lines, from_ms=0, to_ms=10_000).lanes

    assert (first.bars, first.marks) == ([], [])
    assert second.bars[0].width >= 2
    assert second.bars[0].x < WIDTH


def test_owners_keep_their_colour_over_all_lanes() -> None:
    lines = [line(number, ACQUIRED, f"c{number % 8}", queue=number) for number in range(1, 20)]

    drawn = timeline_of(lines, from_ms=0, to_ms=100)

    colours = {(bar.owner, bar.colour) for lane in drawn.lanes for bar in lane.bars}
    assert len(colours) == len({owner for owner, _ in colours}) == len(drawn.owners)


def test_nothing_is_a_drawing_without_lanes() -> None:
    assert timeline_of([], from_ms=5, to_ms=5).lanes == []


def test_a_bar_ends_where_the_lease_was_noticed_to_be_over() -> None:
    lines = [
        line(1_000, ACQUIRED, "a"),
        line(4_000, LockChange.EXPIRED, "", "a"),
        line(7_000, TAKEN, "b", "a"),
    ]

    (lane,) = timeline_of(lines, from_ms=0, to_ms=10_000).lanes

    assert [(bar.owner, bar.x, bar.width) for bar in lane.bars] == [
        ("a", 100, 300),
        ("b", 700, 300),
    ]
    assert [mark.kind for mark in lane.marks] == ["expired", "taken_over"]
    assert "not renewed by a" in lane.marks[0].title


def test_refusals_are_strips_beside_the_bars_and_make_a_lane_of_their_own() -> None:
    spell = Spell(
        at_ms=2_000,
        length_ms=1_000,
        place=("orders", 3),
        owner="a",
        count=412,
        clients=3,
        client_id="b",
    )

    (lane,) = timeline_of([], [spell], from_ms=0, to_ms=10_000).lanes

    (strip,) = lane.strips
    assert (lane.queue, strip.x, strip.width) == (3, 200, 100)
    assert strip.title.endswith("refused 412 times to 3 clients, b among them while a had it")
