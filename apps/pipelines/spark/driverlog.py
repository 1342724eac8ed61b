"""Has all that this process, its JVM and its workers write on standard error read by us as well.

The lines go on to where they went before. Knows descriptors and a run's log.
"""

import os
import threading
from contextlib import suppress

from apps.pipelines.runlogs import RunLog

_READ_BYTES = 65_536


def follow(run_log: RunLog) -> None:
    """Put a pipe in the place of standard error, for the rest of the life of this process.

    Called before the JVM starts, which inherits it.
    """
    before = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(
        target=_copy, args=(reading, before, run_log), name="driver-log", daemon=True
    ).start()


def _copy(reading: int, onward: int, run_log: RunLog) -> None:
    while data := os.read(reading, _READ_BYTES):
        # Neither a closed terminal nor a full disk may hold up who writes.
        with suppress(OSError):
            _write_all(onward, data)
        with suppress(OSError):
            run_log.write(data)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
