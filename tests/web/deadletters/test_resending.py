"""Jobs that send dead letters again: each letter once, at a rate, through crashes and cancels."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection

from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.deadletters import services
from apps.deadletters.filters import LetterFilter, letters_by_id
from apps.deadletters.models import DeadLetter, JobState, ResendJob, State
from apps.deadletters.services import Wish, sending
from apps.engine.errors import InvalidArgument, NotPermitted, StoreFull, UnknownTopic, Unreachable
from apps.engine.types import TopicType
from apps.topics import services as topics
from apps.topics.models import Topic
from tests.web.deadletters.letters import LetterEngine, project, states
from tests.web.group_values import NOW_MS

pytestmark = pytest.mark.django_db(transaction=True)


def ask(group: str = "g", **wish: Any) -> ResendJob:
    """Ask for all letters of a group."""
    return services.request_resend(
        group=group,
        letters=LetterFilter().letters(group),
        criteria={"all": True},
        wish=Wish(**wish),
        by="root",
    )


def work(now_ms: int = NOW_MS) -> int:
    """Take steps until no step says that more is left; return how many letters they dealt with."""
    done = 0
    while True:
        step = services.send_some(now_ms=now_ms)
        done += step.done
        if not step.more:
            return done


def test_all_letters_of_a_group_are_sent_to_where_they_come_from(
    engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 1_203)
    engine.bury("h")
    project(engine)

    job = ask()
    assert (job.state, job.total) == (JobState.QUEUED, 1_203)
    assert job.plan == [{"topic": "orders", "count": 1_203, "trouble": ""}]
    assert work() == 1_203

    job.refresh_from_db()
    assert (job.state, job.sent_count, job.done_count) == (JobState.DONE, 1_203, 1_203)
    assert job.started_at is not None
    assert job.ended_at is not None
    assert set(states("g")) == {"resent"}
    assert states("h") == ["waiting"]
    assert {by for _, _, _, by in engine.asked} == {"root"}
    row = DeadLetter.objects.get(group="g", queue_offset=7)
    assert (row.resent_topic, row.resent_queue, row.resent_offset) == ("orders", 1, 1_007)
    assert row.job == job


def test_letters_go_to_the_group_alone_or_to_another_topic(
    engine: LetterEngine, orders: Topic
) -> None:
    Topic.objects.create(name="repairs")
    engine.bury("g", 2)
    project(engine)
    first, second = DeadLetter.objects.order_by("queue_offset")

    for letter, target in ((first, "%RETRY%g"), (second, "repairs")):
        services.request_resend(
            group="g",
            letters=letters_by_id("g", [letter.pk]),
            criteria={},
            wish=Wish(target=target),
            by="root",
        )
    work()

    assert engine.resent == {("g", 0): "%RETRY%g", ("g", 1): "repairs"}


def test_a_double_click_takes_each_letter_once(engine: LetterEngine, orders: Topic) -> None:
    engine.bury("g", 400)
    project(engine)
    ids = list(DeadLetter.objects.values_list("pk", flat=True))
    together = threading.Barrier(2)
    totals: list[int] = []
    refusals: list[str] = []

    def click() -> None:
        try:
            together.wait()
            job = services.request_resend(
                group="g", letters=letters_by_id("g", ids), criteria={}, wish=Wish(), by="root"
            )
            totals.append(job.total)
        except ProblemError as refusal:
            refusals.append(refusal.kind.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=click) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work()

    assert len(totals) + len(refusals) == 2
    assert set(refusals) <= {"conflict"}
    assert sum(totals) == 400
    assert sorted(offset for _, offsets, _, _ in engine.asked for offset in offsets) == list(
        range(400)
    )


def test_two_jobs_share_what_they_both_ask_for(engine: LetterEngine, orders: Topic) -> None:
    engine.bury("g", 10)
    project(engine)
    some = list(DeadLetter.objects.filter(queue_offset__lt=4).values_list("pk", flat=True))
    services.request_resend(
        group="g", letters=letters_by_id("g", some), criteria={}, wish=Wish(), by="a"
    )

    job = ask()

    assert job.total == 6
    assert job.letters.order_by("queue_offset").first().queue_offset == 4  # type: ignore[union-attr]
    with pytest.raises(ProblemError, match="none of these"):
        ask()


def test_letters_of_another_group_are_not_sent_by_their_number(
    engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g")
    engine.bury("h")
    project(engine)
    theirs = DeadLetter.objects.get(group="h")

    with pytest.raises(ProblemError):
        services.request_resend(
            group="g", letters=letters_by_id("g", [theirs.pk]), criteria={}, wish=Wish(), by="a"
        )
    with pytest.raises(ProblemError):
        services.request_resend(
            group="g",
            letters=DeadLetter.objects.filter(pk=theirs.pk),
            criteria={},
            wish=Wish(),
            by="a",
        )

    assert states("h") == ["waiting"]
    assert not ResendJob.objects.exists()


class Killed(BaseException):
    """The end of a worker."""


def test_a_crash_between_engine_and_rows_sends_nothing_twice(
    engine: LetterEngine, orders: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.bury("g", 3)
    project(engine)
    job = ask()

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(sending, "_record", die)
        with pytest.raises(Killed):
            services.send_some(now_ms=NOW_MS)
    assert len(engine.resent) == 3
    assert states() == ["resending"] * 3
    work()

    job.refresh_from_db()
    assert (job.state, job.sent_count, job.already_count) == (JobState.DONE, 0, 3)
    assert states() == ["resent"] * 3
    assert len(engine.asked) == 2


def test_what_a_step_has_sent_that_another_overtakes_counts_as_sent_with_its_place(
    engine: LetterEngine, orders: Topic
) -> None:
    # A step outlived its lease; another asked later, was told that all were sent, and wrote first.
    engine.bury("g", 2)
    project(engine)
    job = ask()
    overtaken, later = (sending._take(job.pk, moment(NOW_MS)) for _ in range(2))
    assert overtaken is not None
    assert later is not None
    store_id = engine.status().store_id
    sent, already = (sending._sent(portion, store_id) for portion in (overtaken, later))

    sending._record(later, already)
    sending._record(overtaken, sent)

    job.refresh_from_db()
    assert (job.state, job.sent_count, job.already_count) == (JobState.DONE, 2, 0)
    places = DeadLetter.objects.values_list("state", "resent_topic", "resent_offset")
    assert sorted(places) == [("resent", "orders", 1_000), ("resent", "orders", 1_001)]


@pytest.mark.parametrize("error", [Unreachable("away"), StoreFull("full")], ids=str)
def test_a_job_waits_for_an_engine_that_is_away_and_says_so(
    engine: LetterEngine, orders: Topic, error: Unreachable | StoreFull
) -> None:
    engine.bury("g")
    project(engine)
    job = ask()
    engine.error = error

    with pytest.raises(type(error)):
        services.send_some(now_ms=NOW_MS)
    job.refresh_from_db()
    assert (job.state, job.error) == (JobState.RUNNING, str(error))
    engine.error = None
    work()

    job.refresh_from_db()
    assert (job.state, job.error, job.sent_count) == (JobState.DONE, "", 1)


def test_a_refusal_of_the_engine_fails_the_job_and_gives_its_letters_back(
    engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 2)
    project(engine)
    job = ask()
    engine.error = InvalidArgument("not so")

    work()

    job.refresh_from_db()
    assert (job.state, job.error, job.returned_count) == (JobState.FAILED, "not so", 2)
    assert states() == ["waiting"] * 2


def test_a_job_that_is_cancelled_midway_gives_back_what_it_has_not_sent(
    engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 30)
    project(engine)
    job = ask(rate_per_s=10)
    services.send_some(now_ms=NOW_MS)
    assert states().count("resent") == 10

    running = services.cancel(job_id=job.pk, by="anna")
    assert (running.state, running.cancel_requested) == (JobState.RUNNING, True)
    services.cancel(job_id=job.pk, by="bert")
    work(NOW_MS + 60_000)

    job.refresh_from_db()
    assert (job.state, job.cancelled_by) == (JobState.CANCELLED, "anna")
    assert (job.sent_count, job.returned_count, job.total) == (10, 20, 30)
    assert states() == ["resent"] * 10 + ["waiting"] * 20
    assert len(engine.resent) == 10
    assert ask().total == 20


def test_a_job_that_has_not_begun_is_cancelled_at_once(engine: LetterEngine, orders: Topic) -> None:
    engine.bury("g", 2)
    project(engine)
    job = ask()

    services.cancel(job_id=job.pk, by="anna")

    job.refresh_from_db()
    assert (job.state, job.returned_count) == (JobState.CANCELLED, 2)
    assert work() == 0
    with pytest.raises(ProblemError):
        services.cancel(job_id=job.pk + 1, by="anna")


def test_a_job_that_has_ended_cannot_be_cancelled(engine: LetterEngine, orders: Topic) -> None:
    engine.bury("g")
    project(engine)
    job = ask()
    work()

    with pytest.raises(ProblemError, match="has ended"):
        services.cancel(job_id=job.pk, by="anna")


def test_what_a_cancelled_job_had_sent_after_all_counts_as_sent(
    engine: LetterEngine, orders: Topic
) -> None:
    # A worker was paused between the engine's answer and the rows, for longer than its lease; the
    # job was cancelled meanwhile, and its letters were given back.
    engine.bury("g", 2)
    project(engine)
    job = ask()

    def cancelled_meanwhile() -> None:
        engine.after_resend = lambda: None
        thread = threading.Thread(target=cancel_and_step)
        thread.start()
        thread.join()

    def cancel_and_step() -> None:
        services.cancel(job_id=job.pk, by="anna")
        # The step that gives back asks no engine, so it does not wait for the loop we block.
        sending._take(job.pk, moment(NOW_MS))
        connection.close()

    engine.after_resend = cancelled_meanwhile
    services.send_some(now_ms=NOW_MS)

    job.refresh_from_db()
    assert (job.state, job.returned_count) == (JobState.CANCELLED, 2)
    assert states() == ["resent"] * 2


def test_a_rate_is_kept_without_sleeping(engine: LetterEngine, orders: Topic) -> None:
    engine.bury("g", 100)
    project(engine)
    ask(rate_per_s=5)

    sent = []
    for ms in (0, 100, 1_000, 3_000, 3_100, 3_300):
        services.send_some(now_ms=NOW_MS + ms)
        sent.append(states().count("resent"))

    assert sent == [5, 5, 10, 20, 20, 21]


def test_a_rate_is_not_made_up_for_over_a_night(engine: LetterEngine, orders: Topic) -> None:
    engine.bury("g", 200)
    project(engine)
    ask(rate_per_s=5)
    work()

    work(NOW_MS + 12 * 3_600_000)

    assert states().count("resent") == 5 + 25


def test_a_clock_that_was_set_back_does_not_stop_a_job_for_ever(
    engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 20)
    project(engine)
    ask(rate_per_s=5)
    work()

    back_ms = NOW_MS - 3_600_000
    work(back_ms)
    work(back_ms + 1_000)

    assert states().count("resent") == 10


def test_a_slow_job_does_not_hold_up_a_fast_one(engine: LetterEngine, orders: Topic) -> None:
    engine.bury("g", 50)
    engine.bury("h", 1_000)
    project(engine)
    ask("g", rate_per_s=1)

    ask("h")
    work()

    assert states("g").count("resent") == 1
    assert states("h").count("resent") == 1_000


def test_large_letters_are_sent_a_few_at_a_time(engine: LetterEngine, orders: Topic) -> None:
    engine.bury("g", 5)
    project(engine)
    DeadLetter.objects.update(size_bytes=9 * 1024 * 1024)
    ask()

    work()

    assert [len(offsets) for _, offsets, _, _ in engine.asked] == [1] * 5


def test_a_dry_run_counts_what_would_go_where_and_changes_nothing(
    engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 3)
    engine.bury("g", 2, origin="vanished")
    project(engine)

    job = ask(dry_run=True)
    work()

    assert (job.state, job.total, job.done_count) == (JobState.DONE, 5, 0)
    assert job.plan == [
        {"topic": "orders", "count": 3, "trouble": ""},
        {"topic": "vanished", "count": 2, "trouble": "takes no messages, or is not there"},
    ]
    assert (engine.asked, set(states())) == ([], {"waiting"})


def test_letters_go_to_the_lite_topic_they_are_of_and_to_no_parent(
    engine: LetterEngine, orders: Topic
) -> None:
    topics.create_or_change_topic(name="inbox", type=TopicType.LITE)
    engine.bury("g", 2, origin="%LITE%inbox|alice")
    engine.bury("g", 1, origin="%LITE%orders|alice")
    project(engine)

    job = ask(dry_run=True)

    assert job.plan == [
        {"topic": "%LITE%inbox|alice", "count": 2, "trouble": ""},
        {
            "topic": "%LITE%orders|alice",
            "count": 1,
            "trouble": "takes no messages, or is not there",
        },
    ]
    assert ask(dry_run=True, target="%LITE%inbox|bob").plan[0]["trouble"] == ""
    with pytest.raises(NotPermitted):
        ask(dry_run=True, target="inbox")


def test_a_letter_that_fails_waits_again_and_says_why(engine: LetterEngine, orders: Topic) -> None:
    engine.bury("g", 3)
    project(engine)
    engine.refused.add("orders")
    job = ask()

    work()

    job.refresh_from_db()
    assert (job.state, job.failed_count) == (JobState.DONE, 3)
    assert states() == ["waiting"] * 3
    assert set(DeadLetter.objects.values_list("trouble", flat=True)) == {"no topic orders"}
    assert [trouble.detail for trouble in job.troubles.all()] == ["no topic orders"] * 3
    engine.refused.clear()
    ask()
    work()
    assert states() == ["resent"] * 3
    assert set(DeadLetter.objects.values_list("trouble", flat=True)) == {""}


def test_letters_that_the_log_has_lost_or_another_store_holds_are_gone(
    engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 3)
    project(engine)
    DeadLetter.objects.filter(queue_offset=2).update(store_id="0" * 32)
    engine.begins["%DLQ%g"] = 1
    job = ask()

    work()

    job.refresh_from_db()
    assert (job.sent_count, job.gone_count) == (1, 2)
    assert states() == ["gone", "resent", "gone"]
    assert engine.asked[0][1] == [0, 1]


def test_a_wish_nobody_can_carry_out_is_refused(engine: LetterEngine, orders: Topic) -> None:
    Topic.objects.create(name="shut", perm=4)
    engine.bury("g")
    project(engine)

    for error, wish in [
        (UnknownTopic, {"target": "nowhere"}),
        (UnknownTopic, {"target": "%RETRY%other"}),
        (NotPermitted, {"target": "shut"}),
        (InvalidArgument, {"rate_per_s": 0}),
    ]:
        with pytest.raises(error):
            ask(**wish)

    assert not ResendJob.objects.exists()


def test_discarded_letters_are_sent_no_more(engine: LetterEngine, orders: Topic) -> None:
    engine.bury("g", 3)
    project(engine)
    some = DeadLetter.objects.filter(queue_offset__lt=2)

    assert services.discard(letters=some, reason="duplicates", by="anna") == 2
    assert services.discard(letters=some, reason="again", by="bert") == 0
    job = ask()
    work()

    assert job.total == 1
    assert states() == ["discarded", "discarded", "resent"]
    row = DeadLetter.objects.get(queue_offset=0)
    assert (row.discard_reason, row.discarded_by) == ("duplicates", "anna")
    for reason in ("", "  ", "x" * 501):
        with pytest.raises(InvalidArgument):
            services.discard(letters=some, reason=reason, by="anna")


def test_rows_are_pruned_only_where_the_log_holds_their_letters_no_more(
    engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 6)
    project(engine)
    ask()
    work()
    ResendJob.objects.update(ended_at=moment(NOW_MS) - timedelta(days=1))
    engine.begins["%DLQ%g"] = 4
    month_ms = 31 * 86_400_000

    assert services.prune(now_ms=NOW_MS + 86_400_000).done == 0
    assert services.prune(now_ms=NOW_MS + month_ms, rows_max=3).more
    assert services.prune(now_ms=NOW_MS + month_ms).done == 1
    assert states() == ["resent"] * 2
    assert ResendJob.objects.exists()
    project(engine)
    assert states() == ["resent"] * 2

    engine.store_id = "0" * 32
    assert services.prune(now_ms=NOW_MS + month_ms).done == 3
    assert not DeadLetter.objects.exists()
    assert not ResendJob.objects.exists()


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"state": "odd"}, "letter_state_is_known"),
        ({"state": "resending"}, "letter_sent_again_has_a_job"),
        ({"state": "discarded"}, "letter_discarded_has_a_reason"),
        ({"queue_offset": 0}, "letter_once_a_place"),
    ],
)
def test_a_bad_row_is_refused_by_the_database(
    engine: LetterEngine, values: dict[str, Any], constraint: str
) -> None:
    engine.bury("g")
    project(engine)
    usual = {"store_id": engine.store_id, "group": "g", "queue_offset": 1, "state": State.WAITING}

    with pytest.raises(IntegrityError, match=constraint):
        DeadLetter.objects.create(
            **{**usual, **values},
            message_id="m",
            attempts=1,
            dead_at=moment(NOW_MS),
            size_bytes=1,
        )
