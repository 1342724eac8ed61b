"""The catalog as it is kept on disk: a snapshot as plain values and back. Knows no disk.

The content is docs/FORMAT.md 6. A file may have been written before topics had a count of queues
to write to, a time of retention, a way of cleaning or lite topics, before there were groups, and
before they had a policy of retries or a model of lite topics: what is missing has its default.
"""

from collections.abc import Mapping
from typing import Any

from apps.engine.failuretypes import RetryPolicy
from apps.engine.limits import QUEUE_COUNT_MAX
from apps.engine.types import (
    CatalogSnapshot,
    Cleanup,
    ConsumeFrom,
    GroupSpec,
    LiteModel,
    Strategy,
    TopicSpec,
    TopicType,
)


def dump(snapshot: CatalogSnapshot) -> dict[str, object]:
    """Return a snapshot as values that JSON has."""
    return {
        "version": snapshot.version,
        "topics": [
            [
                *(spec.name, spec.queue_count, spec.type, spec.perm, spec.write_queue_count),
                *(spec.retention_ms, spec.cleanup, spec.lite_ttl_ms),
            ]
            for spec in snapshot.topics.values()
        ],
        "groups": [_dump_group(spec) for spec in snapshot.groups.values()],
    }


def load(content: Mapping[str, Any]) -> CatalogSnapshot:
    """Return the snapshot that was dumped.

    Raises KeyError, TypeError or ValueError for anything else.
    """
    topics = [_topic(*row) for row in _list(content["topics"])]
    groups = [_group(row) for row in _list(content.get("groups", []))]
    return CatalogSnapshot(
        version=_number(content["version"]),
        topics={spec.name: spec for spec in topics},
        groups={spec.name: spec for spec in groups},
    )


def _topic(
    name: object,
    queue_count: object,
    kind: object,
    perm: object,
    write_queue_count: object = None,
    retention_ms: object = None,
    cleanup: object = Cleanup.DELETE,
    lite_ttl_ms: object = None,
) -> TopicSpec:
    if write_queue_count is not None:
        write_queue_count = _number(write_queue_count, most=QUEUE_COUNT_MAX)
    return TopicSpec(
        name=_text(name),
        queue_count=_number(queue_count, least=1, most=QUEUE_COUNT_MAX),
        type=TopicType(_text(kind)),
        perm=_number(perm),
        write_queue_count=write_queue_count,
        retention_ms=None if retention_ms is None else _number(retention_ms, least=1),
        cleanup=Cleanup(_text(cleanup)),
        lite_ttl_ms=None if lite_ttl_ms is None else _number(lite_ttl_ms, least=1),
    )


def _dump_group(spec: GroupSpec) -> dict[str, object]:
    return {
        "name": spec.name,
        "enabled": spec.enabled,
        "ordered": spec.ordered,
        "strategy": spec.strategy,
        "fixed": {
            client_id: {topic: list(queues) for topic, queues in topics.items()}
            for client_id, topics in spec.fixed.items()
        },
        "rooms": list(spec.rooms),
        "inner": spec.inner,
        "consume_from": spec.consume_from,
        "consume_from_ms": spec.consume_from_ms,
        "retry_max": spec.retry_max,
        "access_lock_ms": spec.access_lock_ms,
        "retry_policy": spec.retry_policy,
        "retry_delays_ms": list(spec.retry_delays_ms),
        "lite_model": spec.lite_model,
    }


def _group(row: Any) -> GroupSpec:
    strategy = row["strategy"]
    return GroupSpec(
        name=_text(row["name"]),
        enabled=_truth(row["enabled"]),
        ordered=_truth(row["ordered"]),
        strategy=None if strategy is None else Strategy(_text(strategy)),
        fixed={
            client_id: {
                topic: tuple(_number(queue, most=QUEUE_COUNT_MAX - 1) for queue in _list(queues))
                for topic, queues in _mapping(topics).items()
            }
            for client_id, topics in _mapping(row["fixed"]).items()
        },
        rooms=tuple(_text(room) for room in _list(row["rooms"])),
        inner=Strategy(_text(row["inner"])),
        consume_from=ConsumeFrom(_text(row["consume_from"])),
        consume_from_ms=_number_or_none(row["consume_from_ms"]),
        retry_max=_number_or_none(row["retry_max"]),
        access_lock_ms=_number_or_none(row["access_lock_ms"]),
        retry_policy=RetryPolicy(_text(row.get("retry_policy", RetryPolicy.LEVELS))),
        retry_delays_ms=tuple(_number(delay) for delay in _list(row.get("retry_delays_ms", []))),
        lite_model=LiteModel(_text(row.get("lite_model", LiteModel.SHARED))),
    )


def _number(value: object, *, least: int = 0, most: int = 2**63 - 1) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a number")
    if not least <= value <= most:
        raise ValueError(f"{value} is not from {least} to {most}")
    return value


def _number_or_none(value: object) -> int | None:
    return None if value is None else _number(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not a mapping")
    return value
