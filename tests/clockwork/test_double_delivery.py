"""Every task of the house delivered twice at the same time: effects once, no error, no deadlock.

Row D8 of the fault table. What is right is asked of the task itself: one run on the same rows.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from django.core import mail
from django.db import connection, models
from django.utils import timezone

from apps.alerts.models import Alert, AlertEvent, Delivery, Notification
from apps.alerts.services import try_channel
from apps.audit.models import AuditEntry
from apps.audit.selectors import walk as audit_walk
from apps.audit.services import note_export
from apps.bridge import engine as bridge
from apps.clockwork.house import HOUSE_TASKS
from apps.clockwork.models import Outcome, Part, TaskRun, TaskState
from apps.core.moments import moment
from apps.deadletters.models import DeadLetter, ResendJob
from apps.deadletters.services import Wish, request_resend
from apps.delays.models import DelayLevel
from apps.engine.clock import SystemClock
from apps.engine.delaytypes import LevelsDelivered
from apps.engine.failuretypes import ResendResult
from apps.engine.grouptypes import GroupHistory, Rebalance
from apps.engine.types import CatalogSnapshot, QueueRange, TopicSpec
from apps.groups.models import ConsumerGroup, LockTransition
from apps.groups.models import Rebalance as GroupRebalance
from apps.groups.projection.history import write_history
from apps.metrics.models import (
    GroupSample,
    GroupSummary,
    StoreSample,
    TopicSample,
    TopicSummary,
)
from apps.pipelines.models import PipelineRun, RunState, Trigger
from apps.pipelines.services.forgetting import RESULTS_PER_STEP
from apps.topics import services as topics
from apps.topics.models import Topic
from mqweb.celery import app
from mqweb.schedule import SCHEDULE
from tests.emptying import delete_rows
from tests.rounds import rounds
from tests.web.alerts import rows as alert_rows
from tests.web.deadletters.letters import LetterEngine, project
from tests.web.fake_care import level
from tests.web.fake_engine import client, progress
from tests.web.group_values import rebalance, transition
from tests.web.metrics.fakes import (
    START_MS,
    NumberEngine,
    group_sample,
    store_sample,
    topic_sample,
)

pytestmark = pytest.mark.django_db(transaction=True)

app.loader.import_default_modules()

MINUTE_MS = 60_000
# Four hours of slots of 5 s are too old, or due for a roll-up.
LONG_AGO_MS = START_MS - 4 * 60 * MINUTE_MS
NAMES = [f"topic-{number:02}" for number in range(8)]


class Engine(LetterEngine):
    """Obeys and tells like the fake one, and has a status and dead letters."""

    log_start = written_offset = disk_bytes = free_bytes = 0
    status = NumberEngine.status

    def __init__(self) -> None:
        super().__init__()
        self.to_share_out: list[Rebalance] = []

    def rebalance(self, *, reason: str, group: str | None = None) -> list[Rebalance]:
        be_asked()
        changed = []
        while self.to_share_out:
            changed.append(self.to_share_out.pop())
        self.assigned += changed
        return changed

    def deliver_levels(self, messages_max: int = 1_000) -> LevelsDelivered:
        be_asked()
        return super().deliver_levels(messages_max)

    def resend(
        self, group: str, queue_offsets: Sequence[int], *, topic: str | None = None, by: str = ""
    ) -> list[ResendResult]:
        be_asked()
        return super().resend(group, queue_offsets, topic=topic, by=by)

    def own_ranges(self, prefix: str) -> dict[str, list[QueueRange]]:
        be_asked()
        return super().own_ranges(prefix)

    def give_up_transactions(self, messages_max: int = 100) -> int:
        be_asked()
        return super().give_up_transactions(messages_max)


def be_asked() -> None:
    """Take as long as the way to a broker and back, so that two can meet."""
    time.sleep(0.02)


@dataclass(frozen=True)
class Scene:
    """What a task finds, and how to look at what it has done."""

    seed: Callable[[Engine], None]
    effects: Callable[[Engine], object]


def rows(*kinds: type[models.Model]) -> list[tuple[Any, ...]]:
    """Return all rows, without the numbers that the database gave them."""
    found = []
    for kind in kinds:
        columns = [field.attname for field in kind._meta.concrete_fields if not field.primary_key]
        found += [(kind.__name__, *row) for row in kind._default_manager.values_list(*columns)]
    return sorted(found, key=repr)


def seed_old_and_young_rows(_: Engine) -> None:
    long_ago = timezone.now() - timedelta(days=30)
    TaskRun.objects.bulk_create(
        TaskRun(
            task="t",
            owner=f"{age}-{number}",
            started_at=started_at,
            ended_at=started_at,
            outcome=Outcome.DONE,
        )
        for age, started_at in (("old", long_ago), ("young", timezone.now()))
        for number in range(40)
    )
    for age, at in (("old", long_ago), ("young", timezone.now() + timedelta(days=1))):
        Part.objects.create(kind=Part.Kind.WORKER, name=age, seen_at=at)
        for number in range(40):
            Session.objects.create(session_key=f"{age}-{number}", expire_date=at)


def what_was_not_vacuumed(_: Engine) -> object:
    return [
        sorted(TaskRun.objects.filter(task="t").values_list("owner", flat=True)),
        sorted(Session.objects.values_list("session_key", flat=True)),
        sorted(Part.objects.values_list("name", flat=True)),
    ]


def seed_engine_in_use(engine: Engine) -> None:
    engine.catalog = CatalogSnapshot(
        version=1, topics={name: TopicSpec(name=name, queue_count=2) for name in NAMES}
    )
    engine.lengths = {(name, 0): 300 for name in NAMES}
    engine.progress = [progress("g", name, 0, committed=90, delivered=99) for name in NAMES]
    StoreSample.objects.bulk_create([store_sample(START_MS - 5_000)])
    TopicSample.objects.bulk_create(topic_sample(START_MS - 5_000, name) for name in NAMES)
    GroupSample.objects.bulk_create(group_sample(START_MS - 5_000, "g", name) for name in NAMES)


def seed_ten_minutes_of_samples(_: Engine, *, since_ms: int = START_MS - 10 * MINUTE_MS) -> None:
    slots = [since_ms + 5_000 * number for number in range(120)]
    StoreSample.objects.bulk_create(store_sample(at_ms, send_rate=at_ms % 7 / 3) for at_ms in slots)
    TopicSample.objects.bulk_create(
        topic_sample(at_ms, name, sent=at_ms % 1_000_003, send_rate=at_ms % 11 / 7)
        for at_ms in slots
        for name in NAMES
    )
    GroupSample.objects.bulk_create(
        group_sample(at_ms, "g", name, lag=at_ms % 13) for at_ms in slots for name in NAMES
    )


def statistics(_: Engine) -> object:
    return rows(StoreSample, TopicSample, GroupSample, TopicSummary, GroupSummary)


def seed_topics_the_engine_lacks(_: Engine) -> None:
    bridge.remove()
    for name in NAMES:
        topics.create_or_change_topic(name=name)


def catalog(engine: Engine) -> object:
    return [sorted(engine.catalog.topics), len(engine.published)]


def seed_topics_nobody_uses(_: Engine) -> None:
    for name in NAMES:
        topics.create_or_change_topic(name=name, expires_ms=None if "3" in name else 1_000)
    Topic.objects.filter(name__lt=NAMES[6]).update(used_at=timezone.now() - timedelta(days=1000))


def topics_and_catalog(engine: Engine) -> object:
    return [sorted(Topic.objects.values_list("name", flat=True)), catalog(engine)]


def seed_clients(engine: Engine) -> None:
    engine.seen = [
        client("g", f"client-{number}", "t", first_seen_ms=1_000, last_seen_ms=START_MS)
        for number in range(20)
    ]
    member = apps.get_model("groups", "Member")
    long_ago = timezone.now() - timedelta(days=1000)
    for number in range(10, 30):
        member.objects.create(
            group="g",
            client_id=f"client-{number}",
            topics=[],
            first_seen_at=long_ago,
            last_seen_at=long_ago,
        )


def members(_: Engine) -> object:
    return rows(apps.get_model("groups", "Member"))


def seed_groups_out_of_balance(engine: Engine) -> None:
    engine.to_share_out = [rebalance(name, {"a": {"t": (0,)}}) for name in NAMES]


def assignments(engine: Engine) -> object:
    return sorted(found.group for found in engine.assigned)


def seed_old_and_young_history(engine: Engine) -> None:
    for number in range(60):
        age_ms = (45 if number % 2 else 15) * 24 * 60 * MINUTE_MS
        line = transition(number, "g", "t", number, at_ms=START_MS - age_ms)
        shared_out = rebalance("g", {}, number=100 + number, at_ms=START_MS - age_ms)
        history = GroupHistory(transitions=(line,), rebalances=(shared_out,), last=number)
        # Written when it was young.
        write_history(history, store_id="s", now_ms=START_MS - age_ms)
    names = ["heard", "unheard"]
    ConsumerGroup.objects.bulk_create(ConsumerGroup(name=name) for name in names)
    ConsumerGroup.objects.update(created_at=timezone.now() - timedelta(days=1000))
    engine.seen = [client("heard", "c", "t")]


def history_and_groups(_: Engine) -> object:
    return [
        sorted(LockTransition.objects.values_list("number", flat=True)),
        sorted(GroupRebalance.objects.values_list("number", flat=True)),
        sorted(ConsumerGroup.objects.values_list("name", flat=True)),
    ]


def seed_levels_with_messages_due(engine: Engine) -> None:
    engine.levels = [level(number, max_offset=100 * number) for number in range(1, 19)]
    engine.due = {number: 90 * number for number in range(1, 19, 2)}


def levels_and_their_rows(engine: Engine) -> object:
    return [engine.levels, rows(DelayLevel)]


def seed_transactions_nobody_decides(engine: Engine) -> None:
    engine.to_give_up = 530


def given_up(engine: Engine) -> object:
    return engine.to_give_up


def seed_letters_to_send_again(engine: Engine) -> None:
    engine.bury("billing", 60)
    project(engine)
    topics.create_or_change_topic(name="orders")
    letters = DeadLetter.objects.filter(queue_offset__lt=40)
    request_resend(group="billing", letters=letters, criteria={}, wish=Wish(), by="ada")


def letters_and_where_they_went(engine: Engine) -> object:
    return [
        list(DeadLetter.objects.order_by("queue_offset").values_list("queue_offset", "state")),
        list(ResendJob.objects.values_list("state", "total", "sent_count", "already_count")),
        sorted(engine.resent),
    ]


def seed_letters_the_log_has_lost(engine: Engine) -> None:
    engine.bury("billing", 60, died_ms=START_MS - 45 * 24 * 60 * MINUTE_MS)
    project(engine)
    engine.begins["%DLQ%billing"] = 50


def letters(_: Engine) -> object:
    return sorted(DeadLetter.objects.values_list("queue_offset", flat=True))


def seed_runs_whose_worker_is_gone(_: Engine) -> None:
    for number in range(20):
        begins = moment(START_MS) - timedelta(days=30, hours=number)
        PipelineRun.objects.create(
            job="loss",
            window_start=begins,
            window_end=begins + timedelta(hours=1),
            key=f"{number}",
            code_version="1",
            trigger=Trigger.PERSON,
            requested_by="ada",
            requested_at=begins,
            state=RunState.RUNNING,
            worker="w",
            started_at=begins,
            lease_ends_at=begins,
        )


def seed_runs_that_ended_long_ago(engine: Engine) -> None:
    seed_runs_whose_worker_is_gone(engine)
    ended = moment(START_MS) - timedelta(days=1_000)
    # As many as one step takes.
    PipelineRun.objects.filter(key__in=range(RESULTS_PER_STEP - 1)).update(
        state=RunState.DONE, published=True, worker="", lease_ends_at=None, ended_at=ended
    )


def runs(_: Engine) -> object:
    return sorted(PipelineRun.objects.values_list("job", "window_start", "state"))


def seed_groups_that_are_behind(_: Engine) -> None:
    StoreSample.objects.bulk_create([store_sample(START_MS)])
    for name in NAMES:
        alert_rows.group(name, at_ms=START_MS, lag=1_000)
    alert_rows.rule(pending_s=0)
    alert_rows.rule(name="far behind", threshold=500, pending_s=60)
    alert_rows.channel()


def alerts(_: Engine) -> object:
    told = Notification.objects.values_list("channel__name", "alert__subject", "state")
    return [
        sorted(Alert.objects.values_list("rule_name", "subject", "state", "is_told")),
        sorted(AlertEvent.objects.values_list("alert__subject", "state")),
        sorted(told),
    ]


def seed_mails_to_send(_: Engine) -> None:
    mail.outbox.clear()
    channel = alert_rows.channel(kind="mail", url="", recipients=("ada@example.com",))
    for _number in range(7):
        try_channel(channel_id=channel.pk, by="ada", now_ms=START_MS)


def mails(_: Engine) -> object:
    return [
        len(mail.outbox),
        sorted(Notification.objects.values_list("state", "attempts")),
        Delivery.objects.filter(is_good=True).count(),
    ]


def seed_acts_of_long_ago(_: Engine) -> None:
    for age_days in (45, 15):
        at_ms = START_MS - age_days * 24 * 60 * MINUTE_MS
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SystemClock, "wall_ms", lambda _, at_ms=at_ms: at_ms)
            for number in range(30):
                note_export(chosen={"number": str(number)}, by="ada")


def acts_that_are_left(_: Engine) -> object:
    rows = AuditEntry.objects.order_by("number")
    walked, broken = audit_walk()
    assert broken is None
    return [rows.exclude(act="audit.cut").count(), walked.begin.number]


def seed_alerts_that_ended_long_ago(_: Engine) -> None:
    for days in (100, 10):
        ended = moment(START_MS) - timedelta(days=days)
        for name in NAMES:
            Alert.objects.create(
                rule_name="gone", kind="lag", severity="info", threshold=1, subject=name,
                state="resolved", pending_at=ended, fired_at=ended, resolved_at=ended,
            )  # fmt: skip


SCENES: Mapping[str, Scene] = {
    "alerts.deliver": Scene(seed_mails_to_send, mails),
    "alerts.evaluate": Scene(seed_groups_that_are_behind, alerts),
    "alerts.prune": Scene(seed_alerts_that_ended_long_ago, alerts),
    "audit.cut": Scene(seed_acts_of_long_ago, acts_that_are_left),
    "clockwork.vacuum": Scene(seed_old_and_young_rows, what_was_not_vacuumed),
    "deadletters.prune": Scene(seed_letters_the_log_has_lost, letters),
    "deadletters.resend": Scene(seed_letters_to_send_again, letters_and_where_they_went),
    "delays.deliver_levels": Scene(seed_levels_with_messages_due, levels_and_their_rows),
    "groups.expire_silent_clients": Scene(seed_clients, members),
    "groups.prune_history": Scene(seed_old_and_young_history, history_and_groups),
    "groups.rebalance": Scene(seed_groups_out_of_balance, assignments),
    "metrics.prune_statistics": Scene(
        partial(seed_ten_minutes_of_samples, since_ms=LONG_AGO_MS - 48 * 60 * MINUTE_MS),
        statistics,
    ),
    "metrics.roll_up_statistics": Scene(seed_ten_minutes_of_samples, statistics),
    "metrics.sample_statistics": Scene(seed_engine_in_use, statistics),
    "pipelines.launch": Scene(seed_runs_whose_worker_is_gone, runs),
    "pipelines.prune": Scene(seed_runs_that_ended_long_ago, runs),
    "topics.expire_unused_topics": Scene(seed_topics_nobody_uses, topics_and_catalog),
    "topics.reconcile_catalog": Scene(seed_topics_the_engine_lacks, catalog),
    "transactions.give_up": Scene(seed_transactions_nobody_decides, given_up),
}

every_task = pytest.mark.parametrize("name", sorted(SCHEDULE))


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let both deliveries be of the same moment, and all rounds of the same."""
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _: START_MS)


@pytest.fixture(autouse=True)
def pipelines_and_mail_are_on(settings: Any) -> None:
    telling = replace(settings.MQWEB.telling, mail_host="mail.example.com")
    pipelines = replace(settings.MQWEB.pipelines, spark="on")
    settings.MQWEB = replace(
        settings.MQWEB, pipelines=pipelines, telling=telling, audit_keep_days=30
    )


@pytest.fixture(autouse=True)
def no_engine_left_behind() -> Iterator[None]:
    yield
    bridge.remove()


def set_up(scene: Scene) -> Engine:
    """Empty the tables, and let the scene begin with an engine of its own."""
    delete_rows(connection)
    engine = Engine()
    bridge.install(engine, None)  # type: ignore[arg-type]
    scene.seed(engine)
    bridge.install(engine, None)  # type: ignore[arg-type]
    return engine


def twice(work: Callable[[], Any], *, apart_s: float = 0.0) -> tuple[list[Any], bool]:
    """Carry out work in two threads, one a little later; return the answers, and if they met."""
    barrier = threading.Barrier(2)

    def carried_out(delay_s: float) -> tuple[Any, float, float]:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=30)
            time.sleep(delay_s)
            began = time.monotonic()
            answer = work()
            return answer, began, time.monotonic()
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(carried_out, delay_s) for delay_s in (0.0, apart_s)]
        done = [future.result(timeout=60) for future in futures]
    have_met = max(began for _, began, _ in done) < min(ended for _, _, ended in done)
    return [answer for answer, _, _ in done], have_met


def expected_of(name: str) -> object:
    """Return what one run of the task leaves behind; it must have done something."""
    engine = set_up(SCENES[name])
    before = SCENES[name].effects(engine)
    step = HOUSE_TASKS[name].function()
    after = SCENES[name].effects(engine)
    assert step.done > 0
    assert not step.more
    assert after != before
    return after


def run_steps_doubled(name: str, *, rounds: int) -> None:
    """Run the step twice at once, so many times; as a run does that has overlived its lease."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    expected = expected_of(name)
    meetings = 0
    for _ in range(rounds):
        engine = set_up(SCENES[name])
        steps, have_met = twice(HOUSE_TASKS[name].function, apart_s=rng.choice((0, 0.001, 0.005)))
        meetings += have_met
        assert SCENES[name].effects(engine) == expected
        assert not any(step.more for step in steps)
    assert meetings > 0, "the two runs never met"


def run_ticks_doubled(name: str, *, rounds: int) -> None:
    """Deliver a tick twice at once, so many times; one of them finds that the task is taken."""
    expected = expected_of(name)
    meetings = 0
    for _ in range(rounds):
        engine = set_up(SCENES[name])
        answers, have_met = twice(app.tasks[name])
        meetings += have_met
        assert SCENES[name].effects(engine) == expected
        runs = TaskRun.objects.filter(task=name)
        assert {run.outcome for run in runs} == {Outcome.DONE}
        assert sum(answer["ran"] for answer in answers) == len(runs)
        # A second run is right only when the next slot has begun between the two.
        slots = [int(run.started_at.timestamp()) // SCHEDULE[name] for run in runs]
        assert len(slots) == len(set(slots))
        state = TaskState.objects.get(name=name)
        assert (state.run_count, state.owner) == (len(runs), "")
    assert meetings > 0, "the two ticks never met"


def test_every_task_of_the_schedule_has_its_scene() -> None:
    assert set(SCENES) == set(SCHEDULE)


@every_task
def test_a_step_run_twice_at_once_has_its_effects_once(name: str) -> None:
    run_steps_doubled(name, rounds=5)


@every_task
def test_a_tick_delivered_twice_at_once_is_run_once(name: str) -> None:
    run_ticks_doubled(name, rounds=3)


def test_a_step_that_looks_before_it_writes_is_noticed() -> None:
    def careless() -> None:
        if not TaskRun.objects.filter(task="planted").exists():
            TaskRun.objects.create(task="planted", owner=uuid4().hex)

    for _ in range(100):
        TaskRun.objects.all().delete()
        twice(careless)
        if TaskRun.objects.count() > 1:
            return
    pytest.fail("two careless steps at once went unnoticed")


@pytest.mark.crash
@every_task
def test_many_double_deliveries(name: str) -> None:
    run_steps_doubled(name, rounds=rounds(15))
    run_ticks_doubled(name, rounds=rounds(15))
