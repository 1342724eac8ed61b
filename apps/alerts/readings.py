"""The numbers that rules look at, by subject. Reads rows of the newest sample; asks no engine.

A subject with the value None is there, and its number is not known. A whole kind is None while the
samples are too old to say anything.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from django.db.models import Count

from apps.alerts.kinds import BROKER, FRESH_MS, GROWTH_MS, Kind
from apps.core.moments import moment, ms_of
from apps.deadletters.models import DeadLetter
from apps.metrics.looks import LOOK_KEPT_MS
from apps.metrics.models import GroupSummary, StoreSample
from apps.metrics.resolutions import FINE

Values = Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A group as its summary has it; what a look saw too long ago is None."""

    name: str
    lag: int | None
    oldest_age_ms: int | None
    blocked: int | None
    members: int | None
    refusal_rate: float | None


def read(kinds: Collection[str], *, now_ms: int) -> Mapping[str, Values | None]:
    """Return what each of the kinds says now, by subject."""
    newest = (
        StoreSample.objects.filter(resolution_s=FINE.seconds)
        .order_by("-at")
        .values_list("taken_at", "disk_percent")
        .first()
    )
    found: dict[str, Values | None] = dict.fromkeys(kinds)
    if newest is None:
        return found
    taken_ms = ms_of(newest[0])
    if Kind.NO_SAMPLES in kinds:
        # A clock that was set back makes no sample lie ahead.
        found[Kind.NO_SAMPLES] = {BROKER: max(0, now_ms - taken_ms) / 1000}
    if abs(now_ms - taken_ms) > FRESH_MS:
        return found
    if Kind.DISK in kinds:
        found[Kind.DISK] = {BROKER: newest[1]}
    if not any(kind in kinds for kind in (*_OF_GROUP, Kind.DEAD_LETTERS)):
        return found
    groups = _groups(now_ms)
    for kind, value in _OF_GROUP.items():
        if kind in kinds:
            found[kind] = {group.name: value(group) for group in groups}
    if Kind.DEAD_LETTERS in kinds:
        found[Kind.DEAD_LETTERS] = _dead_letters([group.name for group in groups], now_ms)
    return found


def _groups(now_ms: int) -> list[_Group]:
    seen_from = moment(now_ms - LOOK_KEPT_MS)
    rows = GroupSummary.objects.order_by().values_list(
        "name",
        "lag",
        "retry_lag",
        "looked_at",
        "oldest_age_ms",
        "blocked",
        "members",
        "refusal_rate",
    )
    found = []
    for name, lag, retry_lag, looked_at, oldest_age_ms, blocked, members, refusal_rate in rows:
        is_seen = looked_at is not None and looked_at >= seen_from
        found.append(
            _Group(
                name=name,
                # A group that has read nothing yet is not behind: it has no part of a lag either.
                lag=0 if lag is None and retry_lag is None else lag,
                oldest_age_ms=oldest_age_ms if is_seen else None,
                blocked=blocked if is_seen else None,
                members=members if is_seen else None,
                refusal_rate=refusal_rate if is_seen else None,
            )
        )
    return found


def _lag(group: _Group) -> float | None:
    return group.lag


def _oldest_age_s(group: _Group) -> float | None:
    if group.lag == 0:
        return 0
    return None if group.oldest_age_ms is None else group.oldest_age_ms / 1000


def _refusals(group: _Group) -> float | None:
    return None if group.refusal_rate is None else group.refusal_rate * 60


def _waiting_for_nobody(group: _Group) -> float | None:
    if group.members is None:
        return None
    return 0 if group.members else group.lag


_OF_GROUP: Mapping[Kind, Callable[[_Group], float | None]] = MappingProxyType(
    {
        Kind.LAG: _lag,
        Kind.OLDEST_AGE: _oldest_age_s,
        Kind.BLOCKED_QUEUE: lambda group: group.blocked,
        Kind.LOCK_REFUSALS: _refusals,
        Kind.SILENT_GROUP: _waiting_for_nobody,
    }
)


def _dead_letters(names: Collection[str], now_ms: int) -> Values:
    died = dict(
        DeadLetter.objects.filter(dead_at__gte=moment(now_ms - GROWTH_MS))
        .order_by()
        .values_list("group")
        .annotate(count=Count("pk"))
    )
    return dict.fromkeys(names, 0) | died
