"""Numbers of messages with faults on purpose, for jobs and examples to find. Knows the SDK.

Nothing is lost in truth: a number is left out, or given to two messages.
"""

from collections.abc import Mapping

from mqclient import SequenceNumbering

GAP_EVERY = 400
REPEAT_EVERY = 700


class FaultyNumbering(SequenceNumbering):
    """Numbers messages, and leaves out one number and repeats one now and then.

    `gap_count` and `repeat_count` say how often. Used by one sending thread.
    """

    def __init__(self, *, gap_every: int = GAP_EVERY, repeat_every: int = REPEAT_EVERY) -> None:
        """Number from 1 on, under a name that nobody else has."""
        super().__init__()
        self.gap_count = 0
        self.repeat_count = 0
        self._gap_every = gap_every
        self._repeat_every = repeat_every
        self._given = 0
        self._last: dict[tuple[str, int], Mapping[str, str]] = {}

    def for_queue(self, topic: str, queue: int) -> Mapping[str, str]:
        """Return the next number of a queue, the one after it, or the last one again."""
        self._given += 1
        last = self._last.get((topic, queue))
        if last is not None and self._given % self._repeat_every == 0:
            self.repeat_count += 1
            return last
        if last is not None and self._given % self._gap_every == 0:
            # What a producer does that numbers a message and then does not send it.
            super().for_queue(topic, queue)
            self.gap_count += 1
        found = self._last[topic, queue] = super().for_queue(topic, queue)
        return found
