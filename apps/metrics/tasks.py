"""Tasks of the statistics. Each translates a tick to one service call."""

from apps.clockwork.house import house_task
from apps.clockwork.steps import Step
from apps.engine.clock import SystemClock
from apps.metrics import services


@house_task("metrics.sample_statistics", lease_s=12)
def sample_statistics(**_unknown: object) -> Step:
    """Write what the engine says now as the rows of this slot."""
    return services.sample(clock=SystemClock())


@house_task("metrics.roll_up_statistics", lease_s=60)
def roll_up_statistics(**_unknown: object) -> Step:
    """Make minutes of samples, and hours of minutes."""
    return services.roll_up(now_ms=SystemClock().wall_ms())


@house_task("metrics.prune_statistics", lease_s=60)
def prune_statistics(**_unknown: object) -> Step:
    """Delete rows older than their resolution is kept."""
    return services.prune(now_ms=SystemClock().wall_ms())
