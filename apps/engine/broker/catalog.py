"""The topics and groups the broker obeys: one immutable snapshot, swapped whole and kept on disk.

Knows the snapshot and where its file is; not the database it comes from.
"""

import logging

from apps.engine.broker import catalogfile
from apps.engine.broker.owntopics import own_spec
from apps.engine.codec.litenames import lite_spec
from apps.engine.errors import (
    NotPermitted,
    StoreDamaged,
    UnknownFormat,
    UnknownQueue,
    UnknownTopic,
)
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk
from apps.engine.types import (
    PERM_READ,
    PERM_WRITE,
    CatalogSnapshot,
    GroupSpec,
    TopicSpec,
)

_log = logging.getLogger(__name__)
FILE = "config/catalog"
_LITES_MAX = 10_000


class Catalog:
    """The current snapshot, and the questions asked of it at every request."""

    def __init__(self, disk: Disk, *, failpoints: Failpoints) -> None:
        """Load the snapshot last obeyed; start with no topics when there is none.

        One that is damaged is as none: whoever keeps the topics publishes them anew.
        """
        self._disk = disk
        self._failpoints = failpoints
        # The newest lite topics that were asked for: making one is five times finding it.
        self._lites: dict[str, TopicSpec] = {}
        self.snapshot = self._load()

    def publish(self, snapshot: CatalogSnapshot) -> bool:
        """Obey a newer snapshot; ignore one that is not, and return False.

        The snapshot is on disk when this returns.
        """
        if snapshot.version <= self.snapshot.version:
            return False
        content = catalogfile.dump(snapshot)
        atomic.replace(self._disk, FILE, content, failpoints=self._failpoints)
        self.snapshot = snapshot
        self._lites.clear()
        return True

    def topic(self, name: str) -> TopicSpec:
        """Return a topic, also one of the engine's own that may be read; raise UnknownTopic.

        A lite topic is as its parent, with one queue.
        """
        spec = self.snapshot.topics.get(name) or own_spec(name) or self._lite_spec(name)
        if spec is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        return spec

    def group(self, name: str) -> GroupSpec:
        """Return what was decided about a group; the defaults where nothing was."""
        return self.snapshot.groups.get(name) or GroupSpec(name=name)

    def usable_group(self, name: str) -> GroupSpec:
        """Return a group that may read; raise NotPermitted for one that is disabled."""
        spec = self.group(name)
        if not spec.enabled:
            raise NotPermitted(f"group {name!r} is disabled")
        return spec

    def writable(self, name: str, queue: int) -> TopicSpec:
        """Return a topic that takes messages into `queue`.

        Raises UnknownTopic, UnknownQueue or NotPermitted.
        """
        spec = self.topic(name)
        if not spec.perm & PERM_WRITE:
            raise NotPermitted(f"topic {name!r} takes no messages")
        count = spec.queue_count
        if spec.write_queue_count is not None:
            count = min(count, spec.write_queue_count)
        return _with_queue(spec, queue, count)

    def readable(self, name: str, queue: int = 0) -> TopicSpec:
        """Return a topic whose `queue` may be read.

        Raises UnknownTopic, UnknownQueue or NotPermitted.
        """
        spec = self.topic(name)
        if not spec.perm & PERM_READ:
            raise NotPermitted(f"topic {name!r} may not be read")
        return _with_queue(spec, queue, spec.queue_count)

    def _lite_spec(self, name: str) -> TopicSpec | None:
        spec = self._lites.get(name)
        if spec is None and (spec := lite_spec(self.snapshot, name)) is not None:
            if len(self._lites) >= _LITES_MAX:
                self._lites.clear()
            self._lites[name] = spec
        return spec

    def _load(self) -> CatalogSnapshot:
        try:
            content = atomic.load(self._disk, FILE)
        except (StoreDamaged, UnknownFormat) as error:
            _log.error("catalog_unreadable", extra={"reason": str(error)})
            content = None
        if content is None:
            return CatalogSnapshot()
        try:
            return catalogfile.load(content)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreDamaged(f"{FILE} holds something else than a catalog") from error


def _with_queue(spec: TopicSpec, queue: int, count: int) -> TopicSpec:
    if not 0 <= queue < count:
        raise UnknownQueue(f"topic {spec.name!r} has {count} queues for this, none is {queue}")
    return spec
