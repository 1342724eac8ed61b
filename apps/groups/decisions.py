"""What may be decided about a group. Pure: knows the engine's values, no row and no request."""

from collections.abc import Mapping
from typing import Any

from apps.engine import limits
from apps.engine.errors import InvalidArgument, InvalidName
from apps.engine.failuretypes import RetryPolicy
from apps.engine.types import ConsumeFrom, GroupSpec, Strategy

# Names the product gives itself; the engine refuses them as well.
SYSTEM_PREFIX = "rmq_sys_"

# RocketMQ's default is 16. A message that was tried so often will not go through the next time.
RETRY_MAX_MAX = 1_000_000
# The list travels in every snapshot of the catalog, and its last delay repeats.
RETRY_DELAYS_MAX = 100
RETRY_DELAY_MS_MAX = 30 * 86_400_000
# Longer than this a queue would stand still at every rebalance.
ACCESS_LOCK_MS_MAX = 600_000
ROOMS_MAX = 100
ROOM_CHARACTERS_MAX = 255
# The list travels in every snapshot of the catalog.
FIXED_QUEUES_MAX = 10_000

# A room's own queues are shared out among its members; rooms inside a room make no sense.
INNER_STRATEGIES = (Strategy.AVG, Strategy.AVG_BY_CIRCLE, Strategy.CONSISTENT_HASH)


def check_name(name: str) -> None:
    """Raise InvalidName for a name that users may not give to a group."""
    if not limits.NAME_PATTERN.fullmatch(name):
        raise InvalidName(
            f"a group's name has 1 to {limits.NAME_CHARACTERS_MAX} characters of "
            "letters, digits, '%', '|', '_' and '-'"
        )
    if name.startswith(SYSTEM_PREFIX):
        raise InvalidName(f"names that begin with {SYSTEM_PREFIX} are reserved")


def check(spec: GroupSpec) -> None:
    """Raise InvalidName or InvalidArgument unless the engine can obey all of `spec` together."""
    check_name(spec.name)
    if spec.retry_max is not None and not 0 <= spec.retry_max <= RETRY_MAX_MAX:
        raise InvalidArgument(f"retry_max must be from 0 to {RETRY_MAX_MAX}")
    if spec.access_lock_ms is not None and not 1 <= spec.access_lock_ms <= ACCESS_LOCK_MS_MAX:
        raise InvalidArgument(f"access_lock_ms must be from 1 to {ACCESS_LOCK_MS_MAX}")
    _check_delays(spec)
    if spec.inner not in INNER_STRATEGIES:
        raise InvalidArgument(f"inner must be one of {', '.join(INNER_STRATEGIES)}")
    if spec.consume_from is ConsumeFrom.TIMESTAMP and spec.consume_from_ms is None:
        raise InvalidArgument("consume_from timestamp needs a consume_from_time")
    if spec.strategy is Strategy.CONFIG and not spec.fixed:
        raise InvalidArgument("strategy CONFIG needs a fixed list of queues")
    if spec.strategy is Strategy.MACHINE_ROOM and not spec.rooms:
        raise InvalidArgument("strategy MACHINE_ROOM needs rooms")
    _check_rooms(spec.rooms)
    _check_fixed(spec.fixed)


def _check_delays(spec: GroupSpec) -> None:
    delays = spec.retry_delays_ms
    if (spec.retry_policy is RetryPolicy.CUSTOM) != bool(delays):
        raise InvalidArgument("retry_delays_ms is the list of retry_policy custom, and of no other")
    if len(delays) > RETRY_DELAYS_MAX:
        raise InvalidArgument(f"retry_delays_ms has at most {RETRY_DELAYS_MAX} delays")
    if not all(0 <= delay <= RETRY_DELAY_MS_MAX for delay in delays):
        raise InvalidArgument(f"a delay in retry_delays_ms is from 0 to {RETRY_DELAY_MS_MAX} ms")


def are_delays(data: Any) -> bool:  # Whatever JSON there is.
    """Say whether JSON is a list of whole numbers."""
    return isinstance(data, list) and all(
        isinstance(delay, int) and not isinstance(delay, bool) for delay in data
    )


def _check_rooms(rooms: tuple[str, ...]) -> None:
    if len(rooms) > ROOMS_MAX or len(set(rooms)) != len(rooms):
        raise InvalidArgument(f"rooms are at most {ROOMS_MAX}, each named once")
    for room in rooms:
        if not 1 <= len(room) <= ROOM_CHARACTERS_MAX or not room.isprintable():
            raise InvalidArgument(f"a room has 1 to {ROOM_CHARACTERS_MAX} printable characters")


def _check_fixed(fixed: Mapping[str, Mapping[str, tuple[int, ...]]]) -> None:
    given: dict[tuple[str, int], str] = {}
    for client_id, topics in fixed.items():
        if (
            not 1 <= len(client_id) <= limits.CLIENT_ID_CHARACTERS_MAX
            or not client_id.isprintable()
        ):
            raise InvalidArgument(
                f"a client id has 1 to {limits.CLIENT_ID_CHARACTERS_MAX} printable characters"
            )
        for topic, queues in topics.items():
            if not limits.NAME_PATTERN.fullmatch(topic):
                raise InvalidArgument(f"fixed: {topic!r} is no name of a topic")
            for queue in queues:
                if not 0 <= queue < limits.QUEUE_COUNT_MAX:
                    raise InvalidArgument(f"fixed: {topic} has no queue {queue}")
                # A queue with two readers would be read out of order.
                if (topic, queue) in given:
                    raise InvalidArgument(
                        f"fixed: {topic}/{queue} is given to {given[topic, queue]} "
                        f"and to {client_id}"
                    )
                given[topic, queue] = client_id
    if len(given) > FIXED_QUEUES_MAX:
        raise InvalidArgument(f"fixed: at most {FIXED_QUEUES_MAX} queues, not {len(given)}")
