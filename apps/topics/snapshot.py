"""Rows to the engine's CatalogSnapshot, and its way there. The database decides; see `keep`.

Topics are read here; groups come from whoever keeps them (`groupsource`).
"""

import logging
from functools import partial

from django.db import transaction

from apps.bridge import engine as bridge
from apps.engine.api import EngineControl
from apps.engine.errors import Busy
from apps.engine.types import CatalogSnapshot, Cleanup, TopicSpec, TopicType
from apps.topics import groupsource
from apps.topics.models import CatalogVersion, MessageQueue, Topic

# A line of the log names so many; the console has them all.
_NAMED_MAX = 20
_MINUTE_MS = 60_000

_log = logging.getLogger("mqweb.topics")


def build() -> CatalogSnapshot:
    """Read all topics and groups. What is read is at least as new as the version says.

    The version is read first: a change that commits in between is published again by its own
    transaction, under its own version.
    """
    version = stored_version()
    topics = {
        topic.name: TopicSpec(
            name=topic.name,
            queue_count=topic.queue_count,
            type=TopicType(topic.type),
            perm=topic.perm,
            write_queue_count=None
            if topic.write_queue_count == topic.queue_count
            else topic.write_queue_count,
            retention_ms=topic.retention_ms,
            cleanup=Cleanup(topic.cleanup),
            lite_ttl_ms=None
            if topic.lite_ttl_minutes is None
            else topic.lite_ttl_minutes * _MINUTE_MS,
        )
        for topic in Topic.objects.order_by("name").iterator()
    }
    return CatalogSnapshot(version=version, topics=topics, groups=groupsource.source().specs())


def stored_version() -> int:
    """Return the catalog's version in the database; 0 when nothing was ever written."""
    row = CatalogVersion.objects.filter(pk=1).first()
    return 0 if row is None else row.version


def raise_version(*, above: int = 0) -> None:
    """Raise the catalog's version by one, or past `above`; call inside the changing transaction.

    The row stays locked until the transaction ends, so that versions and changes have one order.
    """
    row = lock()
    row.version = max(row.version, above) + 1
    row.save(update_fields=["version"])


def lock() -> CatalogVersion:
    """Return the row that every change of the catalog locks first, until the transaction ends."""
    CatalogVersion.objects.get_or_create(pk=1)
    return CatalogVersion.objects.select_for_update().get(pk=1)


def publish_after_commit() -> None:
    """Publish the snapshot once the running transaction has committed."""
    transaction.on_commit(publish)


def publish() -> None:
    """Give the engine what the database says.

    In a process that knows no engine nothing happens: the keeper picks the change up.
    """
    if not bridge.can_call():
        return
    snapshot = build()
    try:
        bridge.call(partial(_publish_to, snapshot=snapshot))
    except Busy as error:
        # The rows are committed, and the keeper or the next start publishes them.
        extra = {"version": snapshot.version, "detail": str(error)}
        _log.warning("catalog_not_published", extra=extra)


def keep() -> bool:
    """Bring engine and database together; say whether they were apart.

    - The database is newer (changed by another process, or while we were down): publish it.
    - The engine is newer (the database came from a backup, or lost its last commits): of what both
      know the database wins, under a version above the engine's. What only the engine knows
      becomes rows: with a topic its messages would go.
    - The database was never written and the engine has topics or groups (the database was lost):
      what the engine has becomes rows.

    Two processes may do it at once: what one has settled, the other leaves alone.
    """
    held = bridge.call(lambda engine: engine.catalog)
    version = stored_version()
    if version == held.version:
        return False
    if version == 0:
        _adopt(held)
    elif version < held.version:
        _catch_up(held)
    publish()
    return True


def _adopt(held: CatalogSnapshot) -> None:
    with transaction.atomic():
        if lock().version != 0:
            return
        raise_version(above=held.version)
        _make_rows(held)
    extra = {"topics": len(held.topics), "groups": len(held.groups)}
    _log.warning("catalog_adopted_from_engine", extra=extra)


def _catch_up(held: CatalogSnapshot) -> None:
    with transaction.atomic():
        version = lock().version
        if version >= held.version:
            return
        raise_version(above=held.version)
        known = set(Topic.objects.values_list("name", flat=True))
        decided = groupsource.source().specs()
        unknown = CatalogSnapshot(
            version=held.version,
            topics={name: spec for name, spec in held.topics.items() if name not in known},
            groups={name: spec for name, spec in held.groups.items() if name not in decided},
        )
        _make_rows(unknown)
    extra = {
        "topics": sorted(unknown.topics)[:_NAMED_MAX],
        "groups": sorted(unknown.groups)[:_NAMED_MAX],
    }
    _log.warning(
        "catalog_older_than_engine",
        extra={"version": version, "held": held.version, **extra},
    )


def _make_rows(held: CatalogSnapshot) -> None:
    for spec in held.topics.values():
        # A topic that was changing goes on as one that grows: nothing is taken away from it.
        topic = Topic.objects.create(
            name=spec.name,
            type=spec.type.value,
            queue_count=spec.queue_count,
            write_queue_count=spec.queue_count
            if spec.write_queue_count is None
            else spec.write_queue_count,
            target_queue_count=spec.queue_count,
            perm=spec.perm,
            retention_ms=spec.retention_ms,
            cleanup=spec.cleanup.value,
            lite_ttl_minutes=None if spec.lite_ttl_ms is None else spec.lite_ttl_ms // _MINUTE_MS,
        )
        add_queue_rows(topic, first=0)
    groupsource.source().adopt(held.groups)


def add_queue_rows(topic: Topic, *, first: int) -> None:
    """Insert the rows of the queues from number `first` up to the topic's queue count."""
    MessageQueue.objects.bulk_create(
        MessageQueue(topic=topic, number=number, perm=topic.perm)
        for number in range(first, topic.queue_count)
    )


def _publish_to(engine: EngineControl, *, snapshot: CatalogSnapshot) -> None:
    engine.publish_catalog(snapshot)
