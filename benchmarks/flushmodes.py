"""What a pool in front of the page cache brings: `python -m benchmarks.flushmodes`.

The same frames are appended to a log with and without it, and synced every so many frames. Only the
ratios mean anything.
"""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from apps.engine.clock import SystemClock
from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.files.posix import PosixDisk
from apps.engine.limits import MIB
from apps.engine.log.commitlog import CommitLog, RecordRun

_FRAMES = 4_000
_SYNC_EVERY = 500
_ROUNDS = 5


def took_s(directory: Path, *, body_bytes: int, pool_bytes: int) -> float:
    """Append all frames to a new log; return how long that took."""
    config = EngineConfig(segment_bytes=256 * MIB, flush_pool_bytes=pool_bytes)
    log = CommitLog.open(PosixDisk(directory), config=config, clock=SystemClock())
    record = encode_record(topic=b"orders", queue=0, body=bytes(body_bytes))
    sizes = np.array([len(record)], dtype=np.int32)
    begun = time.perf_counter()
    for number in range(_FRAMES):
        payload = bytearray(record)
        run = RecordRun(payload=payload, sizes=sizes, starts=starts_of(sizes), queue_offset=number)
        log.append([run])
        if number % _SYNC_EVERY == _SYNC_EVERY - 1:
            log.sync()
    took = time.perf_counter() - begun
    log.close(clean=True)
    return took


def main() -> None:
    """Print the time with a pool as a ratio to the one without."""
    print("body bytes   pool of 1 MiB   pool of 16 MiB   (1.0: no pool)")
    for body_bytes in (100, 1_024, 16_384):
        ratios = []
        for pool_bytes in (MIB, 16 * MIB):
            pairs = []
            for _ in range(_ROUNDS):
                times = []
                for size in (0, pool_bytes):
                    with tempfile.TemporaryDirectory() as directory:
                        path = Path(directory) / "store"
                        times.append(took_s(path, body_bytes=body_bytes, pool_bytes=size))
                pairs.append(times[1] / times[0])
            ratios.append(statistics.median(pairs))
        print(f"{body_bytes:10}   {ratios[0]:13.2f}   {ratios[1]:14.2f}")


if __name__ == "__main__":
    main()
