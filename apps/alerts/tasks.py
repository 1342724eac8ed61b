"""Tasks of the alerts. Each translates a tick to one service call."""

from apps.alerts import services
from apps.clockwork.house import house_task
from apps.clockwork.steps import Step
from apps.engine.clock import SystemClock


@house_task("alerts.evaluate", lease_s=30)
def evaluate(**_unknown: object) -> Step:
    """Look at every rule, and write down what begins, fires and ends."""
    return services.evaluate(now_ms=SystemClock().wall_ms())


@house_task("alerts.deliver", lease_s=60)
def deliver(**_unknown: object) -> Step:
    """Send some of what channels are to be told."""
    return services.deliver(clock=SystemClock())


@house_task("alerts.prune", lease_s=60)
def prune(**_unknown: object) -> Step:
    """Delete alerts, silences and notifications that are old."""
    return services.prune(now_ms=SystemClock().wall_ms())
