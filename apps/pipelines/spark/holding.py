"""Holds the log for as long as a run reads it. Knows leases and a thread; not what is read.

A plan of the source leases the log for a time, for nobody tells it when its job has ended. A run
knows its end: it holds the log itself, however long it takes, and lets go at once.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apps.engine.clock import SystemClock
from apps.engine.errors import EngineError
from apps.engine.offline.leasing import ReaderLease

# A worker that was killed holds the log no longer than this.
LEASE_MS = 600_000
# Of the source's own leases, which a run's covers.
PLAN_LEASE_MS = 60_000
_KEEP_EVERY_S = 30.0

_log = logging.getLogger(__name__)


@contextmanager
def holding(store: Path, owner: str, log_offset: int) -> Iterator[None]:
    """Keep the log from an offset on from retention during the block.

    Raises what a lease does: InvalidArgument, or what a disk refuses.
    """
    lease = ReaderLease(store, owner, lease_ms=LEASE_MS, clock=SystemClock())
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(_KEEP_EVERY_S):
            try:
                lease.keep()
            except EngineError as error:
                # Half of its time is left: it is tried again.
                _log.warning("lease_not_renewed", extra={"detail": str(error)})

    lease.take(log_offset)
    thread = threading.Thread(target=keep, name="run-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        lease.release()
