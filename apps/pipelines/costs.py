"""What this process and all below it use: the driver, its JVM, Python's workers. Knows /proc."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One process at one moment; `number` and `born` together name it for good."""

    number: int
    born: float
    cpu_s: float
    memory_bytes: int


@dataclass(slots=True, kw_only=True)
class Meter:
    """Adds up what processes used from the first reading on.

    What a process does between its last reading and its end is not seen. Memory is the sum of what
    each has resident; pages that several share count for each.
    """

    read: Callable[[], Iterable[Use]]
    memory_bytes: int = 0
    memory_bytes_max: int = 0
    _first_s: dict[tuple[int, float], float] = field(default_factory=dict)
    _last_s: dict[tuple[int, float], float] = field(default_factory=dict)
    _is_begun: bool = False

    def take(self) -> None:
        """Take a reading."""
        uses = list(self.read())
        for use in uses:
            name = (use.number, use.born)
            # A process that came after the first reading has done all its work since.
            self._first_s.setdefault(name, 0.0 if self._is_begun else use.cpu_s)
            self._last_s[name] = use.cpu_s
        self._is_begun = True
        self.memory_bytes = sum(use.memory_bytes for use in uses)
        self.memory_bytes_max = max(self.memory_bytes_max, self.memory_bytes)

    @property
    def cpu_ms(self) -> int:
        """Return the processor time since the first reading, of all processes together."""
        spent_s = sum(last - self._first_s[name] for name, last in self._last_s.items())
        return round(spent_s * 1000)


def uses_below(number: int) -> list[Use]:
    """Return what a process and all below it use now; those that end meanwhile are left out.

    So are those of another session of the system: parts that were started to be by themselves, as
    streams are below a worker.
    """
    found = []
    try:
        process = psutil.Process(number)
        session = os.getsid(number)
        processes = [process, *process.children(recursive=True)]
    except (psutil.NoSuchProcess, ProcessLookupError):
        return []
    for one in processes:
        try:
            if os.getsid(one.pid) != session:
                continue
            with one.oneshot():
                times = one.cpu_times()
                found.append(
                    Use(
                        number=one.pid,
                        born=one.create_time(),
                        cpu_s=times.user + times.system,
                        memory_bytes=one.memory_info().rss,
                    )
                )
        except (psutil.Error, ProcessLookupError):
            continue
    return found
