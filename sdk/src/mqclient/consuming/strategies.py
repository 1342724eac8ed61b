"""RocketMQ's six ways to share out queues among clients. Knows names only; asks no broker.

The broker shares out the queues of a group by the same rules; this is for who assigns them himself.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from mqclient.errors import InvalidArgument
from mqclient.wire.ring import HashRing

# RocketMQ's number of points a client has on the ring.
_VIRTUAL_NODES = 10


class Strategy(StrEnum):
    """How queues are shared out; RocketMQ's names."""

    AVG = "AVG"
    """Runs of queues, the first ones longer by one where they do not come out even."""
    AVG_BY_CIRCLE = "AVG_BY_CIRCLE"
    """One after another, round and round."""
    CONFIG = "CONFIG"
    """As listed, client by client."""
    MACHINE_ROOM = "MACHINE_ROOM"
    """The queues of brokers in certain rooms only."""
    MACHINE_ROOM_NEARBY = "MACHINE_ROOM_NEARBY"
    """To clients in the broker's room, where there are any."""
    CONSISTENT_HASH = "CONSISTENT_HASH"
    """Who comes or goes moves his own queues only; not balanced."""


@dataclass(frozen=True, slots=True, order=True)
class BrokerQueue:
    """A queue of a topic on a broker. A broker called `room@name` is in that room."""

    topic: str
    broker: str
    queue: int


Shares = dict[str, list[BrokerQueue]]
_Share = Callable[[list[str], list[BrokerQueue]], Shares]


def allocate(
    strategy: Strategy | str,
    clients: Iterable[str],
    queues: Iterable[BrokerQueue],
    *,
    fixed: Mapping[str, Collection[BrokerQueue]] | None = None,
    rooms: Collection[str] = (),
    sites: Mapping[str, str] | None = None,
    inner: Strategy | str = Strategy.AVG,
) -> Shares:
    """Return the queues of each client, in order; the order of the arguments makes no difference.

    CONFIG needs `fixed`, queues by client: one that two list is the first client's. MACHINE_ROOM
    needs `rooms`. Neither gives away what is not named, the others give every queue to exactly one
    client. MACHINE_ROOM_NEARBY takes the rooms of clients from `sites`, "" for those it leaves out,
    and shares a room's queues by `inner`: AVG, AVG_BY_CIRCLE or CONSISTENT_HASH. Raise
    InvalidArgument for another `inner`, and for a strategy there is none of.
    """
    ids, ordered = sorted(set(clients)), sorted(set(queues))
    chosen = _strategy(strategy)
    if not ids:
        return {}
    if chosen is Strategy.CONFIG:
        return _as_listed(ids, ordered, fixed or {})
    if chosen is Strategy.MACHINE_ROOM:
        return _of_rooms(ids, ordered, rooms)
    if chosen is Strategy.MACHINE_ROOM_NEARBY:
        return _nearby(ids, ordered, sites or {}, _strategy(inner))
    return _WHOLE[chosen](ids, ordered)


def _strategy(name: Strategy | str) -> Strategy:
    try:
        return Strategy(name)
    except ValueError:
        raise InvalidArgument(f"there is no strategy {name!r}") from None


def _averagely(clients: list[str], queues: list[BrokerQueue]) -> Shares:
    least, longer = divmod(len(queues), len(clients))
    shares = {}
    rest = iter(queues)
    for number, client in enumerate(clients):
        count = least + (1 if number < longer else 0)
        shares[client] = [next(rest) for _ in range(count)]
    return shares


def _by_circle(clients: list[str], queues: list[BrokerQueue]) -> Shares:
    shares: Shares = {client: [] for client in clients}
    for number, queue in enumerate(queues):
        shares[clients[number % len(clients)]].append(queue)
    return shares


def _by_ring(clients: list[str], queues: list[BrokerQueue]) -> Shares:
    ring = HashRing(clients, virtual_nodes=_VIRTUAL_NODES)
    shares: Shares = {client: [] for client in clients}
    for queue in queues:
        # RocketMQ hashes a queue as its Java client prints it.
        names = f"topic={queue.topic}, brokerName={queue.broker}, queueId={queue.queue}"
        shares[ring.owner_of(f"MessageQueue [{names}]")].append(queue)
    return shares


_WHOLE: dict[Strategy, _Share] = {
    Strategy.AVG: _averagely,
    Strategy.AVG_BY_CIRCLE: _by_circle,
    Strategy.CONSISTENT_HASH: _by_ring,
}


def _as_listed(
    clients: list[str],
    queues: list[BrokerQueue],
    fixed: Mapping[str, Collection[BrokerQueue]],
) -> Shares:
    shares: Shares = {client: [] for client in clients}
    for queue in queues:
        owner = next((client for client in clients if queue in fixed.get(client, ())), None)
        if owner is not None:
            shares[owner].append(queue)
    return shares


def _of_rooms(clients: list[str], queues: list[BrokerQueue], rooms: Collection[str]) -> Shares:
    kept = [queue for queue in queues if _room_of(queue) and _room_of(queue) in rooms]
    each = len(kept) // len(clients)
    shares = {
        client: kept[number * each : (number + 1) * each] for number, client in enumerate(clients)
    }
    for client, queue in zip(clients, kept[each * len(clients) :], strict=False):
        shares[client].append(queue)
    return shares


def _nearby(
    clients: list[str], queues: list[BrokerQueue], sites: Mapping[str, str], inner: Strategy
) -> Shares:
    if inner not in _WHOLE:
        raise InvalidArgument(f"{inner} cannot share out the queues of a room")
    by_room: dict[str, list[BrokerQueue]] = {}
    for queue in queues:
        by_room.setdefault(_room_of(queue), []).append(queue)
    shares: Shares = {client: [] for client in clients}
    for room, found in by_room.items():
        near = [client for client in clients if sites.get(client, "") == room]
        for client, share in _WHOLE[inner](near or clients, found).items():
            shares[client].extend(share)
    return {client: sorted(share) for client, share in shares.items()}


def _room_of(queue: BrokerQueue) -> str:
    parts = queue.broker.split("@")
    return parts[0] if len(parts) == 2 and parts[1] else ""
