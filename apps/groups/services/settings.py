"""Changes to what is decided about groups: one transaction, and the engine is told after it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypedDict

from django.utils import timezone

from apps.audit.services import recorded
from apps.core.actors import UNNAMED
from apps.engine.failuretypes import RetryPolicy
from apps.engine.litetypes import LiteModel
from apps.engine.types import ConsumeFrom, GroupSpec, Strategy
from apps.groups import decisions
from apps.groups.catalog import columns_of, spec_of
from apps.groups.models import ConsumerGroup
from apps.topics import snapshot


class GroupValues(TypedDict, total=False):
    """What somebody decides about a group; what is left out stays as it is. See GroupSpec."""

    enabled: bool
    ordered: bool
    strategy: Strategy | None
    fixed: Mapping[str, Mapping[str, tuple[int, ...]]]
    rooms: tuple[str, ...]
    inner: Strategy
    consume_from: ConsumeFrom
    consume_from_ms: int | None
    retry_max: int | None
    access_lock_ms: int | None
    retry_policy: RetryPolicy
    retry_delays_ms: tuple[int, ...]
    lite_model: LiteModel


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedGroup:
    """A group as it is after the call, and whether nobody had decided about it before."""

    spec: GroupSpec
    is_new: bool


def put_group(*, name: str, values: GroupValues, by: str = UNNAMED) -> ChangedGroup:
    """Decide about a group, or change what is given of what was decided.

    A retry policy without a list of delays is given none, whatever was decided before. A group need
    not have a member yet. What it begins with holds for queues in which it has no progress; the
    rest holds from its next request on. Raises InvalidName and InvalidArgument.
    """
    decisions.check_name(name)
    with recorded(by=by, act="group.change", kind="group", name=name) as entry:
        # The version's row lock puts all changes of the catalog in one order.
        snapshot.lock()
        row = ConsumerGroup.objects.filter(name=name).first() or ConsumerGroup(name=name)
        before = spec_of(row)
        spec = replace(before, **_with_delays(values))
        decisions.check(spec)
        is_new = row.decided_at is None
        if is_new:
            entry.act = "group.create"
        else:
            entry.before = columns_of(before)
        entry.after = columns_of(spec)
        if not is_new and spec == before:
            entry.forget()
        else:
            for column, value in columns_of(spec).items():
                setattr(row, column, value)
            row.decided_at = timezone.now()
            row.save()
            snapshot.raise_version()
            snapshot.publish_after_commit()
    return ChangedGroup(spec=spec, is_new=is_new)


def _with_delays(values: GroupValues) -> GroupValues:
    policy = values.get("retry_policy", RetryPolicy.CUSTOM)
    if policy is RetryPolicy.CUSTOM or "retry_delays_ms" in values:
        return values
    return {**values, "retry_delays_ms": ()}
