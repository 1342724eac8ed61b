"""Tasks of the topics. Each translates a tick to one service call."""

from apps.clockwork.house import house_task
from apps.clockwork.steps import Step
from apps.engine.clock import SystemClock
from apps.topics import services


@house_task("topics.reconcile_catalog", lease_s=30)
def reconcile_catalog(**_unknown: object) -> Step:
    """Bring the engine's topics and the database's together."""
    return services.reconcile_catalog()


@house_task("topics.expire_unused_topics", lease_s=60)
def expire_unused_topics(**_unknown: object) -> Step:
    """Delete topics that nobody has used for as long as they may live without."""
    return services.expire_unused_topics(now_ms=SystemClock().wall_ms())
