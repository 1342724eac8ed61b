"""What was sent back and what was sent again, by group. Knows offsets; no log and no clock."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.careevents import Resent, SentBack
from apps.engine.broker.eventbytes import offsets_of, runs_of

Key = tuple[str, str, int]
_NONE = np.empty(0, dtype=np.int64)


class FailureState:
    """Offsets int64[n], ascending: sent back, by group and queue; sent again, by group."""

    def __init__(self) -> None:
        """Start with none."""
        self._sent_back: dict[Key, NDArray[np.int64]] = {}
        self._resent: dict[str, NDArray[np.int64]] = {}

    def send_back(self, event: SentBack, *, floor: int) -> None:
        """Remember what was sent back, but not below the group's progress."""
        key = (event.group, event.topic, event.queue)
        self._sent_back[key] = np.union1d(self.sent_back(*key), offsets_of(event.runs))
        self.committed(*key, floor)

    def resend(self, event: Resent) -> None:
        """Remember what was sent again."""
        offsets = offsets_of(event.runs)
        self._resent[event.group] = np.union1d(self.resent(event.group), offsets)

    def sent_back(self, group: str, topic: str, queue: int) -> NDArray[np.int64]:
        """Return the offsets of a queue that the group is not given again."""
        return self._sent_back.get((group, topic, queue), _NONE)

    def resent(self, group: str) -> NDArray[np.int64]:
        """Return the offsets of the group's dead letters that were sent again."""
        return self._resent.get(group, _NONE)

    def committed(self, group: str, topic: str, queue: int, queue_offset: int) -> None:
        """Forget what was sent back below the group's progress: nobody asks for it again."""
        key = (group, topic, queue)
        kept = self.sent_back(*key)
        kept = kept[kept >= queue_offset]
        if len(kept):
            self._sent_back[key] = kept
        else:
            self._sent_back.pop(key, None)

    def dump(self) -> dict[str, object]:
        """Return everything as plain values, for the checkpoint."""
        return {
            "sent_back": [[*key, _runs(offsets)] for key, offsets in self._sent_back.items()],
            "resent": [[group, _runs(offsets)] for group, offsets in self._resent.items()],
        }

    def load(self, content: dict[str, Iterable[list[object]]]) -> None:
        """Take up what `dump` gave. Raises KeyError, TypeError or ValueError for anything else."""
        for group, topic, queue, runs in content["sent_back"]:
            key = (str(group), str(topic), int(str(queue)))
            self._sent_back[key] = _offsets(runs)
        for group, runs in content["resent"]:
            self._resent[str(group)] = _offsets(runs)


def _runs(offsets: NDArray[np.int64]) -> list[list[int]]:
    found: list[list[int]] = runs_of(offsets).tolist()
    return found


def _offsets(runs: object) -> NDArray[np.int64]:
    return offsets_of(np.array(runs, dtype=np.int64).reshape(-1, 2))
