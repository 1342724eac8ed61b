"""What an assignment is to be: pure, from members, settings and queue counts. Knows no journal."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from apps.engine.broker.assigned import Queues, owners_of
from apps.engine.broker.members import Member
from apps.engine.broker.owntopics import is_own, own_spec
from apps.engine.broker.strategies.allocation import allocate
from apps.engine.broker.strategies.queues import BrokerQueue
from apps.engine.types import PERM_READ, CatalogSnapshot, GroupSpec, MessageModel, Strategy

# What may share out the queues inside a machine room; the others need more than a room has.
_INNER = (Strategy.AVG, Strategy.AVG_BY_CIRCLE, Strategy.CONSISTENT_HASH)

Owners = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a sharing out depends on, beside the members: settings, and queue counts by topic."""

    settings: GroupSpec
    queue_counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Who gets what. `shared` has the queue count of each topic that members share."""

    strategy: Strategy
    queues: Mapping[str, Queues]
    shared: Mapping[str, int]
    owners: Owners


def terms_of(spec: GroupSpec, topics: Iterable[str], snapshot: CatalogSnapshot) -> Terms:
    """Return what matters of a group's settings and of the topics that may be read."""
    known = snapshot.topics
    return Terms(
        settings=replace(
            GroupSpec(name=spec.name),
            strategy=spec.strategy,
            fixed=spec.fixed,
            rooms=spec.rooms,
            inner=spec.inner,
        ),
        queue_counts={
            topic: found.queue_count
            for topic in topics
            if (found := known.get(topic) or own_spec(topic)) and found.perm & PERM_READ
        },
    )


def share_out(members: Sequence[Member], terms: Terms, *, broker_name: str) -> Outcome:
    """Return who gets what; a topic that a member gets no queue of is left out.

    A topic is shared out among those of its readers that share, and each of the others gets all
    of its queues.
    """
    strategy = _strategy(members, terms.settings)
    found: dict[str, dict[str, tuple[int, ...]]] = {member.client_id: {} for member in members}
    sites: dict[str, dict[str, str]] = {}
    for member in members:
        for topic in terms.queue_counts.keys() & {w.topic for w in member.subscriptions}:
            if _is_sharing(member):
                sites.setdefault(topic, {})[member.client_id] = member.site
            else:
                found[member.client_id][topic] = tuple(range(terms.queue_counts[topic]))
    for topic, sharing in sites.items():
        count = terms.queue_counts[topic]
        queues = [BrokerQueue(topic, broker_name, number) for number in range(count)]
        # What nobody could have set a retry topic up for must not leave it without a reader.
        how = Strategy.AVG if is_own(topic) else strategy
        for client_id, numbers in _shares(queues, how, sharing, terms.settings).items():
            found[client_id][topic] = numbers
    shared = {topic: terms.queue_counts[topic] for topic in sorted(sites)}
    return Outcome(
        strategy=strategy, queues=found, shared=shared, owners=owners_of(members, found, shared)
    )


def count_moved(before: Owners, after: Owners) -> int:
    """Count the queues that are somebody else's than before; nobody counts as somebody."""
    moved = 0
    for topic in before.keys() | after.keys():
        old, new = before.get(topic, ()), after.get(topic, ())
        length = max(len(old), len(new))
        padded = (names + ("",) * (length - len(names)) for names in (old, new))
        moved += sum(one != other for one, other in zip(*padded, strict=True))
    return moved


def _shares(
    queues: Sequence[BrokerQueue],
    strategy: Strategy,
    sites: Mapping[str, str],
    settings: GroupSpec,
) -> dict[str, tuple[int, ...]]:
    """Share out one topic's queues among the clients that have a site."""
    shares = allocate(
        strategy,
        sites,
        queues,
        fixed={
            client_id: [queue for queue in queues if queue.queue in topics.get(queue.topic, ())]
            for client_id, topics in settings.fixed.items()
        },
        rooms=settings.rooms,
        sites=sites,
        inner=settings.inner if settings.inner in _INNER else Strategy.AVG,
    )
    return {name: tuple(queue.queue for queue in share) for name, share in shares.items() if share}


def _strategy(members: Iterable[Member], settings: GroupSpec) -> Strategy:
    """Return the group's strategy, else the one most members want, else AVG."""
    if settings.strategy is not None:
        return settings.strategy
    wishes = Counter(
        member.strategy
        for member in members
        if member.strategy is not None
        and _is_sharing(member)
        and _is_set_up(member.strategy, settings)
    )
    if not wishes:
        return Strategy.AVG
    return min(wishes, key=lambda strategy: (-wishes[strategy], strategy))


def _is_set_up(strategy: Strategy, settings: GroupSpec) -> bool:
    """Say whether the group has what a strategy needs; without it nobody would get anything."""
    match strategy:
        case Strategy.CONFIG:
            return bool(settings.fixed)
        case Strategy.MACHINE_ROOM:
            return bool(settings.rooms)
    return True


def _is_sharing(member: Member) -> bool:
    return member.model is MessageModel.CLUSTERING
