"""Bodies of dead letters, read from the engine's log when somebody asks for them.

Only the process that has the engine can read: elsewhere this raises Stopping.
"""

import base64
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from apps.bridge import engine as bridge
from apps.deadletters.models import DeadLetter
from apps.deadletters.records import records_of, topic_of
from apps.engine.api import EngineAPI
from apps.engine.codec.record import Record
from apps.engine.errors import Refused
from apps.engine.types import PullRequest, PullResult

# Letters apart by no more than so many are read in one go, with what lies between them.
_GAP_MAX = 8
_MESSAGES_PER_READ = 200
_BYTES_PER_READ = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What the log has of a letter beside its row."""

    body: bytes
    properties: Mapping[str, str]
    born_time_ms: int

    @property
    def text(self) -> str | None:
        """Return the body as text; None where it is not UTF-8."""
        try:
            return self.body.decode()
        except UnicodeDecodeError:
            return None

    @property
    def base64(self) -> str:
        """Return the body in base64."""
        return base64.b64encode(self.body).decode()


def body_of(letter: DeadLetter) -> Body | None:
    """Return what the log has of one letter, None where it has it no more. Raises Busy."""
    return bodies([letter]).get(letter.pk)


def bodies(letters: Sequence[DeadLetter]) -> dict[int, Body]:
    """Return what the log has of letters, by the number of their rows.

    Letters the log has no more are left out. Raises Busy while the engine cannot be asked.
    """
    store_id = bridge.call(lambda engine: engine.status().store_id)
    wanted: dict[str, dict[int, int]] = {}
    for letter in letters:
        if letter.store_id == store_id:
            wanted.setdefault(letter.group, {})[letter.queue_offset] = letter.pk
    return {
        numbers[record.queue_offset]: Body(
            body=record.body, properties=record.properties, born_time_ms=record.born_time_ms
        )
        for group, numbers in wanted.items()
        for first, last in _runs(sorted(numbers))
        for record in _read(group, first, last)
        if record.queue_offset in numbers
    }


def _runs(queue_offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last of offsets that lie close together, in order."""
    run: list[int] = []
    for queue_offset in queue_offsets:
        if run and queue_offset - run[-1] > _GAP_MAX:
            yield run[0], run[-1]
            run = []
        run.append(queue_offset)
    if run:
        yield run[0], run[-1]


def _read(group: str, first: int, last: int) -> Iterator[Record]:
    start = first
    while start <= last:
        request = PullRequest(
            topic=topic_of(group),
            queue=0,
            queue_offset=start,
            messages_max=min(last - start + 1, _MESSAGES_PER_READ),
            bytes_max=_BYTES_PER_READ,
        )
        try:
            result = bridge.call_here(partial(_pull, request=request))
        except Refused:
            # The group has no dead letters here any more.
            return
        yield from records_of(result.block)
        if result.next_offset <= start:
            return
        start = result.next_offset


def _pull(engine: EngineAPI, *, request: PullRequest) -> Awaitable[PullResult]:
    return engine.pull(request)
