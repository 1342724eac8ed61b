"""Verbs of lite topics: who is subscribed to which, and what there are. Knows when to wait."""

import asyncio
import logging
from functools import partial

from apps.engine.errors import EngineError
from apps.engine.limits import LITE_LOOK_MS
from apps.engine.litetypes import (
    LiteBacklog,
    LitePage,
    LiteSubscription,
    LiteSync,
    LiteSynced,
    LiteTotal,
)
from apps.engine.local.host import Host

_log = logging.getLogger(__name__)
# How often the clock is asked whether it is time to look.
_ASK_S = 1.0


class LiteVerbs:
    """The verbs of EngineAPI about lite topics."""

    _host: Host

    async def sync_lite(self, request: LiteSync) -> LiteSynced:
        """Change the set of lite topics that a client receives from; see EngineAPI."""
        host = self._host
        host.check_serving()
        before = host.broker.recorder.log_end
        with host.writing():
            answer = await host.patiently(partial(_synced, host, request))
        if host.broker.recorder.log_end == before:
            return answer
        return await host.recorded(answer)

    def lite_topics(self, topic: str, *, after: str = "", count: int = 100) -> LitePage:
        """Return lite topics of a parent by name; see EngineControl."""
        return self._host.broker.literead.page(topic, after=after, count=count)

    def lite_subscriptions(self, group: str) -> tuple[LiteSubscription, ...]:
        """Return the clients of a group that have lite topics; see EngineControl."""
        return self._host.broker.literead.subscriptions(group)

    def lite_totals(self) -> dict[str, LiteTotal]:
        """Return what all lite topics of each parent have in sum; see EngineControl."""
        return self._host.broker.lite_totals()

    def lite_backlog(self, group: str | None = None) -> list[LiteBacklog]:
        """Return what one group or all have left to do in lite topics; see EngineControl."""
        return self._host.broker.litelags.rows(group)


def _synced(host: Host, request: LiteSync, wait: bool) -> LiteSynced:
    return host.broker.sync_lite(request, wait=wait)


async def end_lites(host: Host) -> None:
    """Look for ever, every two minutes of the store's clock, for lite topics that are to end."""
    last_ms = host.broker.clock.monotonic_ms()
    while True:
        await asyncio.sleep(_ASK_S)
        now_ms = host.broker.clock.monotonic_ms()
        if now_ms - last_ms < LITE_LOOK_MS:
            continue
        last_ms = now_ms
        try:
            with host.writing():
                while await host.patiently(lambda wait: host.broker.expire_lite(wait=wait)):  # noqa: ASYNC110
                    # Some at a time, so that nobody waits for more.
                    await asyncio.sleep(0)
                await host.in_thread(host.broker.queues.begin_cleaning())
        except EngineError as error:
            # The next look goes on with it.
            _log.warning("lite_topics_not_ended", extra={"error": str(error)})
