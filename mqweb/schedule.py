"""When each task runs: the only place that says so. Names and seconds; imports nothing.

A task runs once in each slot of so many seconds (docs/OPERATIONS.md, Clockwork).
"""

from collections.abc import Mapping

SCHEDULE: Mapping[str, int] = {
    "delays.deliver_levels": 1,
    "alerts.deliver": 2,
    "deadletters.resend": 2,
    "alerts.evaluate": 5,
    "metrics.sample_statistics": 5,
    "topics.reconcile_catalog": 5,
    "groups.expire_silent_clients": 10,
    "topics.expire_unused_topics": 10,
    "transactions.give_up": 10,
    "pipelines.launch": 10,
    "groups.rebalance": 20,
    "metrics.roll_up_statistics": 20,
    "groups.prune_history": 600,
    "metrics.prune_statistics": 600,
    "deadletters.prune": 3600,
    "pipelines.prune": 3600,
    "alerts.prune": 3600,
    "clockwork.vacuum": 3600,
    "audit.cut": 3600,
}

# Ticks come at least this often even where slots are longer, so that a run that was cut off does
# not wait for the next slot.
TICK_S_MAX = 10

# A tick that no worker has taken for so long is thrown away.
TICK_KEPT_S = 86_400
