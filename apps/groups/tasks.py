"""Task of the groups. Translates a tick to one service call."""

from apps.clockwork.house import house_task
from apps.clockwork.steps import Step
from apps.engine.clock import SystemClock
from apps.groups import services


@house_task("groups.expire_silent_clients", lease_s=60)
def expire_silent_clients(**_unknown: object) -> Step:
    """Forget clients that went silent, and keep rows of the members that are left."""
    return services.expire_silent_clients(now_ms=SystemClock().wall_ms())
