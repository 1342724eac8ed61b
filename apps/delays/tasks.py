"""Tasks of the delays. Each translates a tick to one service call."""

from apps.clockwork.house import house_task
from apps.clockwork.steps import Step
from apps.delays import services
from apps.engine.clock import SystemClock


# The shortest lease that leaves room for a broker that takes its time to answer: while a killed
# run holds it, what is due waits.
@house_task("delays.deliver_levels", lease_s=12)
def deliver_levels(**_unknown: object) -> Step:
    """Deliver what is due in the delay levels, and keep where each is."""
    return services.deliver_levels(now_ms=SystemClock().wall_ms())
