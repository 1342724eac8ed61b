"""Facts about the machine that figures depend on. Reads the system, measures only the disk."""

import os
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

_BLOCK_BYTES = 4096
_SYNCS = 200
_CHUNK_BYTES = 2**20
_CHUNKS = 256
_MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What to print beside every figure."""

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    filesystem: str
    fdatasync_p50_us: float
    fdatasync_p99_us: float
    fresh_pages_gb_s: float
    """Writing to a file whose pages the system has yet to find: slow where memory is lent."""
    known_pages_gb_s: float
    """Writing to the same pages again: what a copy costs."""
    load: float
    """Processes running or waiting in the last minute, before the run; near 0 when quiet."""

    @property
    def is_on_disk(self) -> bool:
        """Say whether the data directory outlives a power cut at all."""
        return self.filesystem not in _MEMORY_FILESYSTEMS


def inspect(directory: Path) -> Machine:
    """Describe this machine and the disk below a directory."""
    p50_us, p99_us = _fdatasync_us(directory)
    fresh_gb_s, known_gb_s = _page_cache_gb_s(directory)
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=memory_bytes / 2**30,
        kernel=platform.release(),
        python=platform.python_version(),
        filesystem=_filesystem(directory),
        fdatasync_p50_us=p50_us,
        fdatasync_p99_us=p99_us,
        fresh_pages_gb_s=fresh_gb_s,
        known_pages_gb_s=known_gb_s,
        load=os.getloadavg()[0],
    )


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _filesystem(directory: Path) -> str:
    """Return the type of the file system; of nested mounts the deepest counts."""
    found = ("", "unknown")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mounted, _, source = line.partition(" - ")
        point = mounted.split()[4]
        if directory.is_relative_to(point) and len(point) >= len(found[0]):
            found = (point, source.split()[0])
    return found[1]


def _fdatasync_us(directory: Path) -> tuple[float, float]:
    """Return median and 99th percentile of writing 4 KiB into allocated space and syncing it."""
    path = directory / "fdatasync"
    block = os.urandom(_BLOCK_BYTES)
    took_us = []
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, _BLOCK_BYTES * _SYNCS)
        os.fsync(descriptor)
        for index in range(_SYNCS):
            started = time.perf_counter()
            os.pwrite(descriptor, block, index * _BLOCK_BYTES)
            os.fdatasync(descriptor)
            took_us.append((time.perf_counter() - started) * 1e6)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(took_us), statistics.quantiles(took_us, n=100)[98]


def _page_cache_gb_s(directory: Path) -> tuple[float, float]:
    """Return how fast an allocated file takes writes, the first time and the second."""
    path = directory / "pages"
    chunk = os.urandom(_CHUNK_BYTES)
    rates_gb_s = []
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, _CHUNK_BYTES * _CHUNKS)
        for _ in range(2):
            started = time.perf_counter()
            for index in range(_CHUNKS):
                os.pwrite(descriptor, chunk, index * _CHUNK_BYTES)
            seconds = time.perf_counter() - started
            rates_gb_s.append(_CHUNK_BYTES * _CHUNKS / seconds / 1e9)
    finally:
        os.close(descriptor)
        path.unlink()
    return rates_gb_s[0], rates_gb_s[1]
