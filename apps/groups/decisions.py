"""What may be decided about a group. Pure: knows the engine's values, no row and no request."""

from collections.abc import Mapping
from typing import Any

from apps.core.phrases import sentence
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
            sentence(
                "a group's name has 1 to %(name_characters_max)s characters of letters, digits, "
                "'%%', '|', '_' and '-'",
                name_characters_max=limits.NAME_CHARACTERS_MAX,
            )
        )
    if name.startswith(SYSTEM_PREFIX):
        raise InvalidName(
            sentence(
                "names that begin with %(system_prefix)s are reserved", system_prefix=SYSTEM_PREFIX
            )
        )


def check(spec: GroupSpec) -> None:
    """Raise InvalidName or InvalidArgument unless the engine can obey all of `spec` together."""
    check_name(spec.name)
    if spec.retry_max is not None and not 0 <= spec.retry_max <= RETRY_MAX_MAX:
        raise InvalidArgument(
            sentence("retry_max must be from 0 to %(retry_max_max)s", retry_max_max=RETRY_MAX_MAX)
        )
    if spec.access_lock_ms is not None and not 1 <= spec.access_lock_ms <= ACCESS_LOCK_MS_MAX:
        raise InvalidArgument(
            sentence(
                "access_lock_ms must be from 1 to %(access_lock_ms_max)s",
                access_lock_ms_max=ACCESS_LOCK_MS_MAX,
            )
        )
    _check_delays(spec)
    if spec.inner not in INNER_STRATEGIES:
        raise InvalidArgument(
            sentence(
                "inner must be one of %(inner_strategies)s",
                inner_strategies=", ".join(INNER_STRATEGIES),
            )
        )
    if spec.consume_from is ConsumeFrom.TIMESTAMP and spec.consume_from_ms is None:
        raise InvalidArgument(sentence("consume_from timestamp needs a consume_from_time"))
    if spec.strategy is Strategy.CONFIG and not spec.fixed:
        raise InvalidArgument(sentence("strategy CONFIG needs a fixed list of queues"))
    if spec.strategy is Strategy.MACHINE_ROOM and not spec.rooms:
        raise InvalidArgument(sentence("strategy MACHINE_ROOM needs rooms"))
    _check_rooms(spec.rooms)
    _check_fixed(spec.fixed)


def _check_delays(spec: GroupSpec) -> None:
    delays = spec.retry_delays_ms
    if (spec.retry_policy is RetryPolicy.CUSTOM) != bool(delays):
        raise InvalidArgument(
            sentence("retry_delays_ms is the list of retry_policy custom, and of no other")
        )
    if len(delays) > RETRY_DELAYS_MAX:
        raise InvalidArgument(
            sentence(
                "retry_delays_ms has at most %(retry_delays_max)s delays",
                retry_delays_max=RETRY_DELAYS_MAX,
            )
        )
    if not all(0 <= delay <= RETRY_DELAY_MS_MAX for delay in delays):
        raise InvalidArgument(
            sentence(
                "a delay in retry_delays_ms is from 0 to %(retry_delay_ms_max)s ms",
                retry_delay_ms_max=RETRY_DELAY_MS_MAX,
            )
        )


def are_delays(data: Any) -> bool:  # Whatever JSON there is.
    """Say whether JSON is a list of whole numbers."""
    return isinstance(data, list) and all(
        isinstance(delay, int) and not isinstance(delay, bool) for delay in data
    )


def _check_rooms(rooms: tuple[str, ...]) -> None:
    if len(rooms) > ROOMS_MAX or len(set(rooms)) != len(rooms):
        raise InvalidArgument(
            sentence("rooms are at most %(rooms_max)s, each named once", rooms_max=ROOMS_MAX)
        )
    for room in rooms:
        if not 1 <= len(room) <= ROOM_CHARACTERS_MAX or not room.isprintable():
            raise InvalidArgument(
                sentence(
                    "a room has 1 to %(room_characters_max)s printable characters",
                    room_characters_max=ROOM_CHARACTERS_MAX,
                )
            )


def _check_fixed(fixed: Mapping[str, Mapping[str, tuple[int, ...]]]) -> None:
    given: dict[tuple[str, int], str] = {}
    for client_id, topics in fixed.items():
        if (
            not 1 <= len(client_id) <= limits.CLIENT_ID_CHARACTERS_MAX
            or not client_id.isprintable()
        ):
            raise InvalidArgument(
                sentence(
                    "a client id has 1 to %(client_id_characters_max)s printable characters",
                    client_id_characters_max=limits.CLIENT_ID_CHARACTERS_MAX,
                )
            )
        for topic, queues in topics.items():
            if not limits.NAME_PATTERN.fullmatch(topic):
                raise InvalidArgument(
                    sentence("fixed: %(topic)s is no name of a topic", topic=repr(topic))
                )
            for queue in queues:
                if not 0 <= queue < limits.QUEUE_COUNT_MAX:
                    raise InvalidArgument(
                        sentence(
                            "fixed: %(topic)s has no queue %(queue)s", topic=topic, queue=queue
                        )
                    )
                # A queue with two readers would be read out of order.
                if (topic, queue) in given:
                    raise InvalidArgument(
                        sentence(
                            "fixed: %(topic)s/%(queue)s is given to %(given)s and to %(client_id)s",
                            topic=topic,
                            queue=queue,
                            given=given[topic, queue],
                            client_id=client_id,
                        )
                    )
                given[topic, queue] = client_id
    if len(given) > FIXED_QUEUES_MAX:
        raise InvalidArgument(
            sentence(
                "fixed: at most %(fixed_queues_max)s queues, not %(given)s",
                fixed_queues_max=FIXED_QUEUES_MAX,
                given=len(given),
            )
        )
