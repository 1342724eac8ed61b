"""What a tick does: claim, run one step, write down its end. Knows no Celery.

The main loop of every task, and so the one place that may catch whatever a step raises.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError

from apps.clockwork import claims
from apps.clockwork.claims import Ended
from apps.clockwork.house import HouseTask
from apps.clockwork.models import Outcome
from apps.core.origins import Door, Origin, come_from
from apps.engine.errors import Busy

_log = logging.getLogger("mqweb.clockwork")


def tick(
    task: HouseTask, keywords: Mapping[str, Any], *, again: Callable[[], object]
) -> dict[str, Any]:
    """Run one step of the task if it is due and free; return what came of it as values of JSON.

    `again` asks for another tick at once; it is called when the step says that more is left.
    Raises what the step raises, once it is written down.
    """
    every_s = settings.CLOCKWORK_SCHEDULE[task.name]
    owner = claims.new_owner()
    try:
        claimed = claims.claim(task.name, every_s=every_s, hold_s=task.hold_s, owner=owner)
    except (OperationalError, InterfaceError) as error:
        # The next tick is a few seconds away; a traceback for each would bury the log.
        _log.warning("tick_without_database", extra={"task": task.name, "detail": str(error)})
        return {"ran": False}
    if claimed is None:
        return {"ran": False}
    try:
        with come_from(Origin(door=Door.TASK, agent=task.name)):
            step = task.function(**keywords)
    except Busy as error:
        # The broker is away or on its way; what to do about it is known, and waiting does it.
        claims.finish(claimed, Ended(outcome=Outcome.FAILED, error=_told(error)))
        _log.warning("step_without_engine", extra={"task": task.name, "detail": str(error)})
        return {"ran": True, "done": 0, "more": False}
    except BaseException as error:
        claims.finish(claimed, Ended(outcome=Outcome.FAILED, error=_told(error)))
        raise
    ended = Ended(outcome=Outcome.DONE, done=step.done, has_more=step.more)
    if not claims.finish(claimed, ended):
        _log.warning("step_overtaken", extra={"task": task.name, "owner": owner})
        return {"ran": True, "done": step.done, "more": False}
    if step.more:
        again()
    return {"ran": True, "done": step.done, "more": step.more}


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
