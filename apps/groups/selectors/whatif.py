"""Who would read what, if a group had another strategy or other members. Live from the engine."""

from apps.bridge import engine as bridge
from apps.engine.caretypes import WhatIf, WhatIfRequest
from apps.engine.types import Strategy
from apps.groups import decisions


def what_if(*, group: str, strategy: Strategy | None, member_count: int | None) -> WhatIf:
    """Return how a group's queues would be shared out; None leaves what is.

    Raises InvalidName or InvalidArgument, and Busy while the engine cannot be asked.
    """
    decisions.check_name(group)
    request = WhatIfRequest(group=group, strategy=strategy, member_count=member_count)
    return bridge.call(lambda engine: engine.what_if(request))
