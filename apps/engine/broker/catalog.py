"""The topics the broker obeys: one immutable snapshot, swapped whole and kept on disk.

Knows topics and the snapshot's file; not the database the snapshot comes from.
"""

from apps.engine.errors import NotPermitted, StoreDamaged, UnknownQueue, UnknownTopic
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk
from apps.engine.types import PERM_READ, PERM_WRITE, CatalogSnapshot, TopicSpec, TopicType

FILE = "config/catalog"


class Catalog:
    """The current snapshot, and the questions asked of it at every request."""

    def __init__(self, disk: Disk, *, failpoints: Failpoints) -> None:
        """Load the snapshot last obeyed; start with no topics when there is none."""
        self._disk = disk
        self._failpoints = failpoints
        self.snapshot = self._load()

    def publish(self, snapshot: CatalogSnapshot) -> bool:
        """Obey a newer snapshot; ignore one that is not, and return False.

        The snapshot is on disk when this returns.
        """
        if snapshot.version <= self.snapshot.version:
            return False
        content = {
            "version": snapshot.version,
            "topics": [[t.name, t.queue_count, t.type, t.perm] for t in snapshot.topics.values()],
        }
        atomic.replace(self._disk, FILE, content, failpoints=self._failpoints)
        self.snapshot = snapshot
        return True

    def topic(self, name: str) -> TopicSpec:
        """Return a topic; raise UnknownTopic."""
        spec = self.snapshot.topics.get(name)
        if spec is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        return spec

    def writable(self, name: str, queue: int) -> TopicSpec:
        """Return a topic that takes messages into `queue`.

        Raises UnknownTopic, UnknownQueue or NotPermitted.
        """
        spec = self.topic(name)
        if not spec.perm & PERM_WRITE:
            raise NotPermitted(f"topic {name!r} takes no messages")
        return self._with_queue(spec, queue)

    def readable(self, name: str, queue: int = 0) -> TopicSpec:
        """Return a topic whose `queue` may be read.

        Raises UnknownTopic, UnknownQueue or NotPermitted.
        """
        spec = self.topic(name)
        if not spec.perm & PERM_READ:
            raise NotPermitted(f"topic {name!r} may not be read")
        return self._with_queue(spec, queue)

    def _with_queue(self, spec: TopicSpec, queue: int) -> TopicSpec:
        if not 0 <= queue < spec.queue_count:
            raise UnknownQueue(
                f"topic {spec.name!r} has queues 0 to {spec.queue_count - 1}, not {queue}"
            )
        return spec

    def _load(self) -> CatalogSnapshot:
        content = atomic.load(self._disk, FILE)
        if content is None:
            return CatalogSnapshot()
        try:
            topics = {
                name: TopicSpec(name=name, queue_count=count, type=TopicType(kind), perm=perm)
                for name, count, kind, perm in content["topics"]
            }
            return CatalogSnapshot(version=content["version"], topics=topics)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreDamaged(f"{FILE} holds something else than a catalog") from error
