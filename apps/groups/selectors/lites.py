"""Which lite topics the clients of a group are subscribed to, as the engine has it in memory."""

from collections.abc import Sequence

from apps.bridge import engine as bridge
from apps.engine.litetypes import LiteSubscription


def lite_subscriptions(group: str) -> Sequence[LiteSubscription]:
    """Return the clients of a group that have lite topics, by client id. Raises Busy."""
    return bridge.call(lambda engine: engine.lite_subscriptions(group))
