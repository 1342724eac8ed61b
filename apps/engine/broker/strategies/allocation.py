"""One entry to all strategies. Knows which needs what; the arithmetic is next door.

The same clients and queues give the same shares, in whatever order they are named.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from apps.engine.broker.strategies import shares
from apps.engine.broker.strategies.queues import BrokerQueue, Shares
from apps.engine.broker.strategies.ring import by_ring
from apps.engine.errors import InvalidArgument
from apps.engine.types import Strategy

_NO_LISTS: Mapping[str, Collection[BrokerQueue]] = MappingProxyType({})
_NO_SITES: Mapping[str, str] = MappingProxyType({})
# Those that need nothing else, and give every queue to somebody.
_WHOLE: Mapping[Strategy, Callable[[Sequence[str], Sequence[BrokerQueue]], Shares]] = {
    Strategy.AVG: shares.averagely,
    Strategy.AVG_BY_CIRCLE: shares.by_circle,
    Strategy.CONSISTENT_HASH: by_ring,
}


def allocate(
    strategy: Strategy,
    clients: Iterable[str],
    queues: Iterable[BrokerQueue],
    *,
    fixed: Mapping[str, Collection[BrokerQueue]] = _NO_LISTS,
    rooms: Collection[str] = (),
    sites: Mapping[str, str] = _NO_SITES,
    inner: Strategy = Strategy.AVG,
) -> Shares:
    """Return the queues of each client: usually those of one topic, for those who read it.

    Clients count in the order of their ids, queues in that of topic, broker name and number.
    AVG, AVG_BY_CIRCLE, CONSISTENT_HASH and MACHINE_ROOM_NEARBY give every queue to exactly one
    client; CONFIG gives what `fixed` lists by client, MACHINE_ROOM what lies in `rooms`, neither to
    two clients. MACHINE_ROOM_NEARBY shares a room's queues by `inner` among the clients whose site
    it is, and among all where it has none; who has no site, and a broker in no room, are in "".
    Raises InvalidArgument for an `inner` that is not one of the first three.
    """
    names, kept = sorted(set(clients)), sorted(set(queues))
    if not names:
        return {}
    match strategy:
        case Strategy.CONFIG:
            return shares.as_listed(names, kept, fixed)
        case Strategy.MACHINE_ROOM:
            return shares.of_rooms(names, kept, rooms)
        case Strategy.MACHINE_ROOM_NEARBY:
            return _nearby(names, kept, sites=sites, inner=inner)
    return _WHOLE[strategy](names, kept)


def _nearby(
    clients: Sequence[str],
    queues: Sequence[BrokerQueue],
    *,
    sites: Mapping[str, str],
    inner: Strategy,
) -> Shares:
    share_out = _WHOLE.get(inner)
    if share_out is None:
        raise InvalidArgument(f"{inner} cannot share out the queues of a room")
    found: Shares = {client: [] for client in clients}
    for room in sorted({queue.room for queue in queues}):
        here = [client for client in clients if sites.get(client, "") == room]
        of_room = [queue for queue in queues if queue.room == room]
        for client, share in share_out(here or clients, of_room).items():
            found[client] += share
    return {client: sorted(share) for client, share in found.items()}
