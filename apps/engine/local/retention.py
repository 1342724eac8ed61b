"""The verb of retention, for people: delete now what may go. Knows when to wait."""

from apps.engine.local.host import Host
from apps.engine.local.retentionloop import Cleaner
from apps.engine.retentiontypes import Cleaned


class RetentionVerbs:
    """The verb of EngineControl about retention."""

    _host: Host
    _cleaner: Cleaner

    async def clean_now(self) -> Cleaned:
        """Delete what is too old, at any hour; see EngineControl."""
        self._host.check_serving()
        return await self._cleaner.clean(at_any_hour=True)
