"""All walks over a store, in the order they are made; a new kind of file adds its own here."""

from collections.abc import Callable, Iterator, Sequence

from apps.engine.verify.compactedwalk import compacted
from apps.engine.verify.findings import Finding, Walk
from apps.engine.verify.indexwalk import index
from apps.engine.verify.logwalk import log
from apps.engine.verify.queuewalk import queues
from apps.engine.verify.smallfiles import catalog, files
from apps.engine.verify.statewalk import state
from apps.engine.verify.store import Store
from apps.engine.verify.timerwalk import timers

WALKS: tuple[Walk, ...] = (
    Walk(name="files", run=files),
    Walk(name="log", run=log),
    Walk(name="queues", run=queues),
    Walk(name="index", run=index),
    Walk(name="timers", run=timers),
    Walk(name="compacted", run=compacted),
    Walk(name="state", run=state),
    Walk(name="catalog", run=catalog),
)


def verify(
    store: Store, walks: Sequence[Walk] = WALKS, *, started: Callable[[str], None]
) -> Iterator[Finding]:
    """Make the walks one after the other; `started` is told the name of each. Changes nothing."""
    for walk in walks:
        started(walk.name)
        yield from walk.run(store)
