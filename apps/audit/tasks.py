"""Task of the audit log. It translates a tick to one service call."""

from apps.audit import services
from apps.clockwork.house import house_task
from apps.clockwork.steps import Step
from apps.engine.clock import SystemClock


@house_task("audit.cut", lease_s=60)
def cut(**_unknown: object) -> Step:
    """Cut off entries that are older than is to be kept."""
    return services.cut_old(now_ms=SystemClock().wall_ms())
