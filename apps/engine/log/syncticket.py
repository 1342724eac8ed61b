"""One sync of the log, as begun on one thread and waited for on another. Knows files, no frames."""

from collections.abc import Sequence

from apps.engine.errors import SyncFailed
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import File
from apps.engine.files.refusals import sync_refusal


class SyncTicket:
    """One sync: what it covers was fixed when it began."""

    def __init__(self, target: int, files: Sequence[File], failpoints: Failpoints) -> None:
        """Cover the log up to `target`, which lies in `files`."""
        self.target = target
        self.failure: SyncFailed | None = None
        self.is_done = False
        self._files = files
        self._failpoints = failpoints

    def run(self) -> None:
        """Wait for the disk; for a thread. Raises SyncFailed."""
        assert not self.is_done
        assert self.failure is None, "a failed sync is never tried again"
        try:
            self._failpoints.hit("log.before_sync")
            for file in self._files:
                file.sync()
            self._failpoints.hit("log.after_sync")
        except OSError as error:
            self.failure = sync_refusal(error, "cannot sync the log")
            raise self.failure from error
        except SyncFailed as error:
            self.failure = error
            raise
        self.is_done = True
