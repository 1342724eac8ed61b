"""The task that has queues shared out again, as a step of the clockwork."""

import pytest

from apps.clockwork.steps import Step
from apps.engine.errors import Unreachable
from apps.engine.grouptypes import Rebalance
from apps.groups import services, tasks
from apps.groups.models import ConsumerGroup
from mqweb.schedule import SCHEDULE
from tests.web.fake_engine import FakeEngine
from tests.web.group_values import rebalance


def test_the_engine_is_asked_every_twenty_seconds_and_told_who_asks(engine: FakeEngine) -> None:
    assert services.rebalance() == Step(done=0)

    assert engine.rebalance_reasons == ["beat"]
    assert SCHEDULE["groups.rebalance"] == 20


def test_a_step_counts_the_groups_whose_queues_moved(engine: FakeEngine) -> None:
    engine.assigned = [rebalance("g", {}), rebalance("f", {})]

    assert services.rebalance() == Step(done=2)


def test_a_step_fails_as_busy_while_the_engine_cannot_be_reached(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*, reason: str) -> list[Rebalance]:
        raise Unreachable(reason)

    monkeypatch.setattr(engine, "rebalance", away)

    with pytest.raises(Unreachable):
        services.rebalance()


@pytest.mark.django_db
def test_the_tasks_run_as_they_are_registered(engine: FakeEngine) -> None:
    ConsumerGroup.objects.create(name="g")

    assert tasks.rebalance()["ran"]
    assert tasks.prune_history() == {"ran": True, "done": 0, "more": False}
