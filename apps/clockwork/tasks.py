"""The clockwork's own task. Translates a tick to one service call."""

from apps.clockwork import services
from apps.clockwork.house import house_task
from apps.clockwork.steps import Step


@house_task("clockwork.vacuum", lease_s=60)
def vacuum(**_unknown: object) -> Step:
    """Delete rows that nobody asks for any more."""
    return services.vacuum()
