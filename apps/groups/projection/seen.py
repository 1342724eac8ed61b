"""Rows of groups that nobody decided about, so that operators find them. Knows names only."""

from collections.abc import Iterable

from apps.groups.models import ConsumerGroup


class SeenGroups:
    """Gives every group it is told of a row, once; one that exists is left as it is."""

    def __init__(self) -> None:
        """Know no group yet."""
        self._known: set[str] = set()

    def project(self, names: Iterable[str]) -> int:
        """Write the rows of names not met before, and return how many names those were."""
        fresh = sorted(set(names) - self._known)
        if fresh:
            ConsumerGroup.objects.bulk_create(
                [ConsumerGroup(name=name) for name in fresh],
                ignore_conflicts=True,
                batch_size=1_000,
            )
            self._known.update(fresh)
        return len(fresh)

    def forget(self) -> None:
        """Give all groups their rows again: somebody may have deleted one."""
        self._known.clear()
