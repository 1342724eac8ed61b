"""An engine for tests of the control plane: a catalog, ranges and progress, and no store."""

from collections.abc import Iterable

from apps.engine.errors import UnknownTopic
from apps.engine.types import CatalogSnapshot, GroupProgress, QueueRange


class FakeEngine:
    """Obeys snapshots as an engine must, and tells what the test has put in."""

    def __init__(self) -> None:
        self.catalog = CatalogSnapshot()
        self.published: list[CatalogSnapshot] = []
        self.lengths: dict[tuple[str, int], int] = {}
        self.progress: list[GroupProgress] = []

    def publish_catalog(self, snapshot: CatalogSnapshot) -> None:
        if snapshot.version > self.catalog.version:
            self.catalog = snapshot
            self.published.append(snapshot)

    def queue_ranges(self, topic: str) -> list[QueueRange]:
        spec = self.catalog.topics.get(topic)
        if spec is None:
            raise UnknownTopic(topic)
        return [
            QueueRange(
                topic=topic,
                queue=queue,
                min_offset=0,
                max_offset=self.lengths.get((topic, queue), 0),
            )
            for queue in range(spec.queue_count)
        ]

    def group_progress(self, group: str | None = None) -> list[GroupProgress]:
        return [row for row in self.progress if group in (None, row.group)]


def progress(
    group: str,
    topic: str,
    queue: int,
    *,
    committed: int,
    delivered: int,
    max_offset: int | None = None,
) -> GroupProgress:
    """Build progress in one queue; the queue ends where delivery does unless told otherwise."""
    return GroupProgress(
        group=group,
        topic=topic,
        queue=queue,
        committed=committed,
        delivered=delivered,
        in_flight=delivered - committed,
        max_offset=delivered if max_offset is None else max_offset,
    )


def names(snapshots: Iterable[CatalogSnapshot]) -> list[list[str]]:
    """Return the topics of each snapshot."""
    return [sorted(snapshot.topics) for snapshot in snapshots]
