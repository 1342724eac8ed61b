"""Delayed messages as the engine has them. Asks the engine; knows no row."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.access.policy import Sight
from apps.bridge import engine as bridge
from apps.core.sifting import sifted
from apps.engine.api import EngineControl
from apps.engine.delaytypes import DelayedMessage, DelayedPage, DelayLevelState, DelayStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Everything but the messages: the levels by number, and counters of delays of their own."""

    levels: tuple[DelayLevelState, ...]
    status: DelayStatus

    @property
    def in_levels(self) -> int:
        """Return how many messages wait in the levels."""
        return sum(level.max_offset - level.delivered for level in self.levels)


def delays() -> Delays:
    """Return the levels and the counters. Raises Busy while the engine cannot be asked."""
    return bridge.call(delays_of)


def delays_of(engine: EngineControl) -> Delays:
    """Ask an engine for levels and counters."""
    levels = engine.delay_levels().levels
    return Delays(
        levels=tuple(sorted(levels, key=lambda state: state.level)), status=engine.delay_status()
    )


def shown_page(
    sight: Sight,
    *,
    level: int | None = None,
    topic: str | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
    cursor: str | None = None,
    messages_max: int,
) -> DelayedPage:
    """Return a page as `page` does, with the messages for topics that a sight shows.

    It may be shorter than `messages_max`, and go on all the same.
    """

    def read(behind: str | None) -> tuple[Sequence[DelayedMessage], str | None]:
        found = page(
            level=level,
            topic=topic,
            from_ms=from_ms,
            to_ms=to_ms,
            cursor=behind,
            messages_max=messages_max,
        )
        return found.messages, found.cursor

    messages, behind = sifted(read, lambda one: sight.topic(one.topic), start=cursor)
    return DelayedPage(messages=tuple(messages), cursor=behind)


def page(
    *,
    level: int | None = None,
    topic: str | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
    cursor: str | None = None,
    messages_max: int,
) -> DelayedPage:
    """Return delayed messages by due time: of a level, or those with a delay of their own.

    `from_ms` is the first due time that is meant, `to_ms` the first that is not any more; `cursor`
    is that of the page before. Raises InvalidArgument, and Busy while the engine cannot be asked.
    """
    return bridge.call(
        lambda engine: engine.delayed(
            level=level,
            topic=topic,
            from_ms=from_ms,
            to_ms=to_ms,
            cursor=cursor,
            messages_max=messages_max,
        )
    )
