"""Dead letters from the log into rows: every one, once, whatever their producers wrote."""

import asyncio
from collections.abc import Callable

import pytest

from apps.core.moments import moment
from apps.deadletters.models import DeadLetter, State
from apps.deadletters.projection import COMPARE_EVERY_MS, DeadLetterProjector
from apps.deadletters.records import history_of
from tests.web.deadletters.letters import (
    HandClock,
    LetterEngine,
    in_thread,
    project,
    states,
)
from tests.web.group_values import NOW_MS

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_row_says_where_a_letter_comes_from_and_what_it_died_of(engine: LetterEngine) -> None:
    engine.bury("g")

    project(engine)

    row = DeadLetter.objects.get()
    assert (row.store_id, row.group, row.queue_offset) == (engine.store_id, "g", 0)
    assert (row.origin_topic, row.origin_queue, row.origin_offset) == ("orders", 3, 100)
    assert (row.message_id, row.keys, row.tag) == ("ID0", "k1 k2", "red")
    assert (row.attempts, row.reason, len(row.history)) == (17, "boom", 17)
    assert row.history[0] == [1, NOW_MS - 1_000, "boom", "c@1"]
    assert (row.first_failed_at, row.dead_at) == (moment(NOW_MS - 1_000), moment(NOW_MS))
    assert (row.state, row.job) == (State.WAITING, None)


def test_many_letters_of_several_groups_get_a_row_each(engine: LetterEngine) -> None:
    engine.bury("g", 1_203)
    engine.bury("h", 2)

    project(engine)

    offsets = DeadLetter.objects.filter(group="g").order_by("queue_offset")
    assert list(offsets.values_list("queue_offset", flat=True)) == list(range(1_203))
    assert DeadLetter.objects.filter(group="h").count() == 2


def test_nothing_is_read_again_where_nothing_has_died(engine: LetterEngine) -> None:
    projector = DeadLetterProjector(HandClock())
    engine.bury("g", 3)
    project(engine, projector)
    pulls = engine.pulls

    assert not project(engine, projector)
    engine.bury("g")
    assert project(engine, projector)

    assert engine.pulls == pulls + 1
    assert len(states()) == 4


def test_a_new_start_goes_on_behind_the_last_row(engine: LetterEngine) -> None:
    engine.bury("g", 3)
    project(engine)
    DeadLetter.objects.update(state=State.DISCARDED, discarded_at=moment(1), discard_reason="x")
    engine.bury("g")

    project(engine)

    assert states() == ["discarded", "discarded", "discarded", "waiting"]


def test_letters_of_a_log_that_was_put_back_make_room_for_others(
    engine: LetterEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """The rows are of letters that nobody has; others will lie at their places."""
    engine.bury("g", 5)
    engine.bury("h", 2)
    project(engine)
    DeadLetter.objects.filter(group="g", queue_offset=4).update(
        state=State.DISCARDED, discarded_at=moment(1), discard_reason="x"
    )
    engine.put_back("g", 3)
    engine.put_back("h", 0)

    project(engine)
    engine.bury("g", 1)
    engine.bury("h", 1)
    project(engine)

    kept = DeadLetter.objects.order_by("group", "queue_offset")
    places = list(kept.values_list("group", "queue_offset"))
    assert places == [("g", 0), ("g", 1), ("g", 2), ("g", 3), ("h", 0)]
    assert set(kept.values_list("state", flat=True)) == {State.WAITING}
    lines = [line for line in caplog.records if line.message == "dead_letters_ahead_of_log"]
    assert sorted((line.group, line.count) for line in lines) == [("g", 2), ("h", 2)]


def test_a_database_that_was_restored_catches_up(engine: LetterEngine) -> None:
    clock = HandClock()
    projector = DeadLetterProjector(clock)
    engine.bury("g", 5)
    project(engine, projector)
    DeadLetter.objects.filter(queue_offset__gte=2).delete()

    assert not project(engine, projector)
    clock.now_ms += COMPARE_EVERY_MS
    project(engine, projector)

    assert states() == ["waiting"] * 5


def test_two_projectors_at_once_write_each_letter_once(engine: LetterEngine) -> None:
    engine.bury("g", 700)

    async def both() -> None:
        async def run(projector: DeadLetterProjector) -> None:
            look = projector.look(engine)  # type: ignore[arg-type]
            assert look is not None

            async def in_database(work: Callable[[], object]) -> None:
                await in_thread(work)

            await projector.project(look, engine, in_database)  # type: ignore[arg-type]

        await asyncio.gather(*(run(DeadLetterProjector(HandClock())) for _ in range(2)))

    asyncio.run(both())

    assert DeadLetter.objects.count() == 700


def test_a_database_that_is_away_is_asked_again_by_the_next_look(engine: LetterEngine) -> None:
    projector = DeadLetterProjector(HandClock())
    engine.bury("g", 1_000)
    calls = 0

    async def away_after_the_first_write(work: Callable[[], object]) -> None:
        nonlocal calls
        calls += 1
        if calls <= 2:
            await in_thread(work)

    look = projector.look(engine)  # type: ignore[arg-type]
    assert look is not None
    asyncio.run(projector.project(look, engine, away_after_the_first_write))  # type: ignore[arg-type]
    assert (calls, len(states())) == (3, 500)

    assert project(engine, projector)
    assert len(states()) == 1_000


def test_letters_the_log_has_lost_are_gone_unless_something_became_of_them(
    engine: LetterEngine,
) -> None:
    engine.bury("g", 4)
    project(engine)
    DeadLetter.objects.filter(queue_offset=0).update(
        state=State.DISCARDED, discarded_at=moment(1), discard_reason="x"
    )
    engine.begins["%DLQ%g"] = 2

    project(engine)

    assert states() == ["discarded", "gone", "waiting", "waiting"]


def test_letters_of_another_store_are_gone_until_it_comes_back(engine: LetterEngine) -> None:
    engine.bury("g", 2)
    project(engine)
    first_store = engine.store_id

    engine.store_id = "0" * 32
    engine.bury("g")
    project(engine)
    counts = {
        store: list(DeadLetter.objects.filter(store_id=store).values_list("state", flat=True))
        for store in (first_store, engine.store_id)
    }
    engine.store_id = first_store
    project(engine)

    assert counts == {first_store: ["gone"] * 2, "0" * 32: ["waiting"] * 3}
    rows = DeadLetter.objects.filter(store_id=first_store)
    assert set(rows.values_list("state", flat=True)) == {"waiting"}


def test_hostile_texts_fit_into_their_columns(engine: LetterEngine) -> None:
    engine.bury(
        "g",
        reason="nul \0 <script>" + "r" * 700,
        keys="\0" + "k" * 5_000,
        origin="o" * 300,
        UNIQ_KEY="",
        DLQ_ORIGIN_MESSAGE_ID="m\0" + "i" * 10_000,
        ORIGIN_QUEUE="-1",
        ORIGIN_OFFSET="9" * 40,
        TAGS="\U0001f600" * 400,
    )

    project(engine)

    row = DeadLetter.objects.get()
    assert row.reason.startswith("nul \ufffd <script>")
    assert (len(row.reason), len(row.keys), len(row.origin_topic)) == (500, 1_000, 255)
    assert row.message_id.startswith("m\ufffdi")
    assert (row.origin_queue, row.origin_offset) == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "{}",
        "[[]]",
        '[[1, 2, "x"]]',
        '[["1", 2, "x", "y"]]',
        '[[1, -5, "x", "y"]]',
        '[[1, 10e300, "x", "y"]]',
        f'[[1, {10**30}, "x", "y"]]',
        '[[true, 2, "x", "y"]]',
        '[[1, 2, null, "y"]]',
        "[" * 20_000,
        "1" * 5_000,
    ],
    ids=lambda text: text[:20],
)
def test_a_history_of_another_shape_is_no_history(text: str) -> None:
    assert history_of(text) == []


def test_a_lone_surrogate_in_a_history_becomes_a_question_mark() -> None:
    assert history_of('[[1, 2, "\\ud800", "y"]]') == [[1, 2, "?", "y"]]
