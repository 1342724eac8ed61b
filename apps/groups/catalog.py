"""Rows of groups to the engine's GroupSpec and back: the groups of the catalog's snapshot."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from apps.core.moments import moment, ms_of
from apps.engine.failuretypes import RetryPolicy
from apps.engine.litetypes import LiteModel
from apps.engine.types import ConsumeFrom, GroupSpec, Strategy
from apps.groups.models import ConsumerGroup


class GroupRows:
    """Keeps what was decided about groups, for `apps.topics.groupsource`."""

    def specs(self) -> Mapping[str, GroupSpec]:
        """Return every group somebody decided about, by name."""
        decided = ConsumerGroup.objects.filter(decided_at__isnull=False).order_by("name")
        return {row.name: spec_of(row) for row in decided.iterator()}

    def adopt(self, specs: Mapping[str, GroupSpec]) -> None:
        """Make rows of groups the engine has; one that was only seen becomes a decided one."""
        for spec in specs.values():
            ConsumerGroup.objects.update_or_create(
                name=spec.name, defaults={**columns_of(spec), "decided_at": timezone.now()}
            )


def spec_of(row: ConsumerGroup) -> GroupSpec:
    """Return a row as the engine takes it."""
    return GroupSpec(
        name=row.name,
        enabled=row.enabled,
        ordered=row.ordered,
        strategy=Strategy(row.strategy) if row.strategy else None,
        fixed=fixed_of(row.fixed),
        rooms=tuple(row.rooms),
        inner=Strategy(row.inner),
        consume_from=ConsumeFrom(row.consume_from),
        consume_from_ms=None if row.consume_from_at is None else ms_of(row.consume_from_at),
        retry_max=row.retry_max,
        access_lock_ms=row.access_lock_ms,
        retry_policy=RetryPolicy(row.retry_policy),
        retry_delays_ms=tuple(row.retry_delays_ms),
        lite_model=LiteModel(row.lite_model),
    )


def columns_of(spec: GroupSpec) -> dict[str, object]:
    """Return the columns of a spec, without its name."""
    return {
        "enabled": spec.enabled,
        "ordered": spec.ordered,
        "strategy": "" if spec.strategy is None else spec.strategy.value,
        "fixed": json_of(spec.fixed),
        "rooms": list(spec.rooms),
        "inner": spec.inner.value,
        "consume_from": spec.consume_from.value,
        "consume_from_at": None if spec.consume_from_ms is None else moment(spec.consume_from_ms),
        "retry_max": spec.retry_max,
        "access_lock_ms": spec.access_lock_ms,
        "retry_policy": spec.retry_policy.value,
        "retry_delays_ms": list(spec.retry_delays_ms),
        "lite_model": spec.lite_model.value,
    }


def fixed_of(json: Any) -> Mapping[str, Mapping[str, tuple[int, ...]]]:  # Values of JSON.
    """Return queue numbers by topic by client id out of JSON of that shape."""
    return {
        client_id: {topic: tuple(queues) for topic, queues in topics.items()}
        for client_id, topics in json.items()
    }


def is_fixed(data: Any) -> bool:  # Whatever JSON there is.
    """Say whether JSON is queue numbers by topic by client id."""
    return isinstance(data, dict) and all(
        isinstance(topics, dict)
        and all(
            isinstance(queues, list)
            and all(isinstance(queue, int) and not isinstance(queue, bool) for queue in queues)
            for queues in topics.values()
        )
        for topics in data.values()
    )


def json_of(
    assignment: Mapping[str, Mapping[str, tuple[int, ...]]],
) -> dict[str, dict[str, list[int]]]:
    """Return queue numbers by topic by client id as JSON has them."""
    return {
        client_id: {topic: list(queues) for topic, queues in topics.items()}
        for client_id, topics in assignment.items()
    }
