"""Tasks of the transactions. Each translates a tick to one service call."""

from apps.clockwork.house import house_task
from apps.clockwork.steps import Step
from apps.transactions import services


@house_task("transactions.give_up", lease_s=30)
def give_up(**_unknown: object) -> Step:
    """Give up transactions that nobody decides."""
    return services.give_up()
