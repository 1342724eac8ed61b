"""Tasks of the dead letters. Each translates a tick to one service call."""

from apps.clockwork.house import house_task
from apps.clockwork.steps import Step
from apps.deadletters import services
from apps.engine.clock import SystemClock


@house_task("deadletters.resend", lease_s=60)
def resend(**_unknown: object) -> Step:
    """Send a portion of every resend job that is not done."""
    return services.send_some(now_ms=SystemClock().wall_ms())


@house_task("deadletters.prune", lease_s=60)
def prune(**_unknown: object) -> Step:
    """Delete rows of letters the log has lost, and of old jobs."""
    return services.prune(now_ms=SystemClock().wall_ms())
