"""What a lock around appends would cost: spin, reentrant, none. `python -m benchmarks.appendlocks`.

Threads append frames of 4 KiB to one file with `pwrite` at an offset they take under the lock;
"none" is one thread that does all of it, as the broker's loop does. Only the ratios mean anything.
"""

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

_FRAME = bytes(4096)
_FRAMES = 20_000
# Of spinning threads, which take the interpreter from the one that has the lock.
_FRAMES_SPUN = 160
_ROUNDS = 5
_THREADS = (1, 2, 4, 16)
# A pass through the file; what is measured is the lock and not the disk.
_FILE_FRAMES = 4_096


class SpinLock:
    """Tries until it succeeds, as RocketMQ's PutMessageSpinLock does with compare-and-set."""

    def __init__(self) -> None:
        """Start free."""
        self._is_held = threading.Lock()

    def __enter__(self) -> None:
        """Take it without ever going to sleep for it."""
        while not self._is_held.acquire(blocking=False):
            pass

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self._is_held.release()


def appended(
    lock: AbstractContextManager[object], threads: int, descriptor: int, frames: int = _FRAMES
) -> tuple[float, float]:
    """Append frames with so many threads; return wall and processor seconds of a frame."""
    offset = 0

    def work(count: int) -> None:
        nonlocal offset
        for _ in range(count):
            with lock:
                os.pwrite(descriptor, _FRAME, offset % _FILE_FRAMES * len(_FRAME))
                offset += 1

    workers = [threading.Thread(target=work, args=(frames // threads,)) for _ in range(threads)]
    begun, spent = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert offset == frames // threads * threads, "an append was lost"
    return (time.perf_counter() - begun) / offset, (time.process_time() - spent) / offset


def main() -> None:
    """Print a table of ratios to one thread without a lock."""
    kinds: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "spin": SpinLock,
        "reentrant": threading.RLock,
    }
    with tempfile.TemporaryFile() as file:
        descriptor = file.fileno()
        appended(nullcontext(), 1, descriptor)
        alone = [appended(nullcontext(), 1, descriptor) for _ in range(_ROUNDS)]
        wall, spent = (statistics.median(column) for column in zip(*alone, strict=True))
        print("lock        threads  time  processor   (1.0: one thread without a lock)")
        for name, make in kinds.items():
            for threads in _THREADS:
                is_spinning = name == "spin" and threads > 1
                frames = _FRAMES_SPUN if is_spinning else _FRAMES
                rounds = [appended(make(), threads, descriptor, frames) for _ in range(_ROUNDS)]
                took, used = (statistics.median(column) for column in zip(*rounds, strict=True))
                print(f"{name:10}  {threads:7}  {took / wall:4.1f}  {used / spent:9.1f}")


if __name__ == "__main__":
    main()
