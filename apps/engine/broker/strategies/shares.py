"""Shares by counting: averagely, by circle, and of chosen machine rooms. Knows sorted lists only.

`n` queues are for `m` clients, of which one has number `i`.
"""

from collections.abc import Collection, Mapping, Sequence

from apps.engine.broker.strategies.queues import BrokerQueue, Shares


def averagely(clients: Sequence[str], queues: Sequence[BrokerQueue]) -> Shares:
    """Give each client a run of queues, one more to the first `n % m`."""
    shares = {}
    n, m = len(queues), len(clients)
    for i, client in enumerate(clients):
        is_longer = i < n % m
        count = n // m + is_longer
        first = i * count if is_longer else i * count + n % m
        shares[client] = list(queues[first : first + count])
    return shares


def by_circle(clients: Sequence[str], queues: Sequence[BrokerQueue]) -> Shares:
    """Deal the queues out one by one, round and round."""
    return {client: list(queues[i :: len(clients)]) for i, client in enumerate(clients)}


def of_rooms(
    clients: Sequence[str], queues: Sequence[BrokerQueue], rooms: Collection[str]
) -> Shares:
    """Share out the queues of brokers in `rooms`: runs of `n // m`, then what is left one by one.

    Queues of other rooms, and of brokers in none, are nobody's.
    """
    kept = [queue for queue in queues if queue.room and queue.room in rooms]
    count, m = len(kept) // len(clients), len(clients)
    return {
        client: kept[i * count : (i + 1) * count] + kept[m * count + i : m * count + i + 1]
        for i, client in enumerate(clients)
    }


def as_listed(
    clients: Sequence[str],
    queues: Sequence[BrokerQueue],
    fixed: Mapping[str, Collection[BrokerQueue]],
) -> Shares:
    """Give each client the queues its list names, as far as there are any.

    A queue that several lists name is the first such client's; one that none names is nobody's.
    """
    left = set(queues)
    shares = {}
    for client in clients:
        taken = left.intersection(fixed.get(client, ()))
        left -= taken
        shares[client] = sorted(taken)
    return shares
