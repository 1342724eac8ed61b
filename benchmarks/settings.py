"""How a run is done, and the life of one server within it. Knows sides, not what they measure."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.sides import Durability, Side

# What one measurement may hold in memory twice: as sent, and as received.
_BODIES_BYTES_MAX = 512 * 1024 * 1024
ROCKETMQ_SERVERS = ("mqweb", "apache")
_ROUND = 1000
_GROWTH = 5
_TRIAL_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Choices of the command line; `sides` begins with ours."""

    repetitions: int
    seconds: float
    """How long each measurement should take about."""
    directory: Path
    sides: Sequence[Side]
    rocketmq_servers: Sequence[str] = ROCKETMQ_SERVERS
    """Under which servers RocketMQ's own client is measured."""
    rocketmq_connections: Sequence[int] = (1, 16)

    def is_ours(self, side: Side) -> bool:
        """Say whether a side is the product itself."""
        return side is self.sides[0]

    def count_for(self, size_bytes: int, trial: Callable[[int], float]) -> int:
        """Return how many messages keep a side busy for about `seconds`.

        `trial` sends so many and returns the seconds; it is given more until it takes long enough
        to be believed, which also warms the server up.
        """
        largest = _BODIES_BYTES_MAX // size_bytes
        count = _ROUND
        while (took_s := trial(count)) < self.seconds * _TRIAL_SHARE and count < largest:
            count *= _GROWTH
        wanted = min(int(count / took_s * self.seconds), largest)
        return max(_ROUND, wanted // _ROUND * _ROUND)


@contextmanager
def serving(settings: Settings, side: Side, durability: Durability) -> Iterator[None]:
    """Run a side's server on an empty directory for the time of the block.

    Only one server runs at a time: an idle one still has timers.
    """
    directory = Path(tempfile.mkdtemp(prefix="side-", dir=settings.directory))
    # Servers that drop their privileges must be able to pass.
    directory.chmod(0o755)
    try:
        side.start(durability, directory)
        yield
    finally:
        side.stop()
        shutil.rmtree(directory)
