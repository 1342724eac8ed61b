"""Tasks of the groups. Each translates a tick to one service call."""

from apps.clockwork.house import house_task
from apps.clockwork.steps import Step
from apps.engine.clock import SystemClock
from apps.groups import services


@house_task("groups.expire_silent_clients", lease_s=60)
def expire_silent_clients(**_unknown: object) -> Step:
    """Forget clients that went silent, and keep rows of the members that are left."""
    return services.expire_silent_clients(now_ms=SystemClock().wall_ms())


@house_task("groups.rebalance", lease_s=30)
def rebalance(**_unknown: object) -> Step:
    """Have every group's queues shared out among the members it has now."""
    return services.rebalance()


@house_task("groups.prune_history", lease_s=60)
def prune_history(**_unknown: object) -> Step:
    """Delete old lines of the history of locks and assignments."""
    return services.prune_history(now_ms=SystemClock().wall_ms())
