"""What tests of the clockwork share: a schedule of their own, and a way to let time pass."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db.models import F

from apps.clockwork.house import HOUSE_TASKS, HouseTask
from apps.clockwork.models import TaskRun, TaskState
from apps.clockwork.steps import Step

NAME = "tests.count"


@pytest.fixture
def counted(settings: object) -> Iterator[HouseTask]:
    """Return a task with slots of an hour and a lease of 30 s, which is due once an hour."""
    settings.CLOCKWORK_SCHEDULE = {NAME: 3600}
    yield HouseTask(name=NAME, lease_s=30, function=lambda **_unknown: Step(done=1))
    HOUSE_TASKS.pop(NAME, None)


def let_pass(*, seconds: float) -> None:
    """Move everything that is written down into the past, as if so much time had gone by.

    The clock of the clockwork is the database's, which no test can set.
    """
    by = timedelta(seconds=seconds)
    TaskState.objects.update(
        due_at=F("due_at") - by,
        lease_ends_at=F("lease_ends_at") - by,
        last_started_at=F("last_started_at") - by,
    )
    TaskRun.objects.update(started_at=F("started_at") - by, ended_at=F("ended_at") - by)
