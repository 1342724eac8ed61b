"""Store what producers numbered once, however often it is sent. Knows claims, ways and the log.

What is new is judged when it is written and not when it comes: the first try may still have waited
then. The numbers go into the frame of their messages, so that both are there or neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.careevents import Sequenced
from apps.engine.broker.intake import Intake, Routed, answers_of
from apps.engine.broker.produce import CheckedBatch
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.repeatclaims import Claim, claims_of, runs_of_places, without
from apps.engine.broker.repeatstate import RepeatState
from apps.engine.clock import Clock
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import MalformedBatch
from apps.engine.limits import SEQUENCE_RECEIPTS_OF_EVENT_MAX
from apps.engine.log.commitlog import CommitLog
from apps.engine.types import Appended, Special


@dataclass(slots=True, kw_only=True, eq=False)
class _Judged:
    """A batch of a client, and what of it was stored before.

    `left` is what is new: None where nothing is, the batch itself where everything is. `new_places`
    then numbers its messages in the batch, int64[n].
    """

    batch: CheckedBatch
    claims: list[Claim]
    left: CheckedBatch | None
    new_places: NDArray[np.int64] | None = None


class Repeats:
    """The way of batches with producers' numbers into the log."""

    def __init__(
        self,
        state: RepeatState,
        recorder: Recorder,
        intake: Intake,
        queues: QueueSet,
        log: CommitLog,
        *,
        clock: Clock,
    ) -> None:
        """Bind to a store."""
        self._state = state
        self._recorder = recorder
        self._intake = intake
        self._queues = queues
        self._log = log
        self._clock = clock
        self.repeat_count = 0

    def append(self, batches: Sequence[CheckedBatch]) -> tuple[list[Appended], int]:
        """Store what is new of some batches, in one frame; return the answers and where it ends.

        What was stored before is in `Appended.repeats`, and as durable as the rest once the log is
        synced up to the end that is returned. Raises MalformedBatch, SequenceTooOld, StoreFull or
        what the ways of the batches raise, with nothing changed.
        """
        judged = [self._judge(batch) for batch in batches]
        _refuse_twice(judged)
        ways = self._intake.route([one.left for one in judged if one.left is not None])
        parts = [part for way in ways for part in way.parts]
        stored: list[Appended] = []
        # What was stored before may lie behind what is synced.
        end = self._log.written_offset
        if parts:
            events = self._events(judged, ways, parts)
            _, stored = self._recorder.commit(events, parts, is_internal=False)
            end = self._recorder.log_end
        new = iter(answers_of(ways, stored))
        answers = [self._answer(one, None if one.left is None else next(new)) for one in judged]
        return answers, end

    def claims(self, batch: CheckedBatch, topic: str) -> list[Claim]:
        """Return the numbers of a batch, and which of them are known for `topic`.

        Raises MalformedBatch or SequenceTooOld.
        """
        return [
            Claim(
                producer_id=producer_id,
                places=places,
                numbers=numbers,
                found=self._state.find(producer_id, topic, numbers),
            )
            for producer_id, places, numbers in claims_of(batch)
        ]

    def _judge(self, batch: CheckedBatch) -> _Judged:
        if Special.SEQUENCE not in batch.special:
            return _Judged(batch=batch, claims=[], left=batch)
        claims = self.claims(batch, batch.topic)
        if not any(claim.found.is_known.any() for claim in claims):
            return _Judged(batch=batch, claims=claims, left=batch)
        repeated = np.concatenate([claim.places[claim.found.is_known] for claim in claims])
        count = len(batch.sizes)
        if batch.is_whole and len(repeated) < count:
            raise MalformedBatch(
                f"{len(repeated)} of {count} messages were stored before: "
                f"a batch is repeated as it was"
            )
        return _Judged(
            batch=batch,
            claims=claims,
            left=without(batch, repeated),
            new_places=np.delete(np.arange(count), repeated),
        )

    def _events(
        self,
        judged: Sequence[_Judged],
        ways: Sequence[Routed],
        parts: Sequence[CheckedBatch],
    ) -> list[Sequenced]:
        """Return what says where the new messages of each producer will be."""
        events = []
        new = (one for one in judged if one.left is not None)
        for one, expected in zip(new, answers_of(ways, self._places_of(parts)), strict=True):
            for claim in one.claims:
                numbers, at = claim.numbers, claim.places
                if one.new_places is not None:
                    is_new = ~claim.found.is_known
                    numbers = numbers[is_new]
                    at = np.searchsorted(one.new_places, at[is_new])
                if len(numbers):
                    events.append(_event(claim.producer_id, numbers, at, expected))
        return events

    def _places_of(self, parts: Sequence[CheckedBatch]) -> list[Appended]:
        """Return where batches will be when they are written next, in one frame."""
        ends: dict[tuple[str, int], int] = {}
        now_ms = self._clock.wall_ms()
        places = []
        for part in parts:
            key = (part.topic, part.queue)
            end = ends.get(key)
            if end is None:
                end = self._queues.queue(*key).end
            ends[key] = end + len(part.sizes)
            places.append(
                Appended(
                    topic=part.topic,
                    queue=part.queue,
                    queue_offset=end,
                    count=len(part.sizes),
                    log_offset=self._log.written_offset,
                    store_time_ms=now_ms,
                )
            )
        return places

    def _answer(self, one: _Judged, new: Appended | None) -> Appended:
        """Return the answer to a batch: where what is new went, and where the rest is."""
        if new is not None and one.new_places is None:
            return new
        known = [(claim, claim.found.is_known) for claim in one.claims]
        found = {
            place: (queue, offset)
            for claim, mask in known
            for place, queue, offset in zip(
                claim.places[mask].tolist(),
                claim.found.queues[mask].tolist(),
                claim.found.offsets[mask].tolist(),
                strict=True,
            )
        }
        self.repeat_count += len(found)
        if new is not None:
            return replace(new, repeats=found)
        first = min(found)
        at_ms = [int(claim.found.at_ms[mask].min()) for claim, mask in known if mask.any()]
        receipts = self._receipts(one)
        return Appended(
            topic=one.batch.topic,
            queue=found[first][0],
            queue_offset=found[first][1],
            count=0,
            log_offset=-1,
            store_time_ms=min(at_ms),
            due_ms=tuple(due_ms for due_ms, _ in receipts),
            handles=tuple(handle for _, handle in receipts if handle),
            repeats=found,
        )

    def _receipts(self, one: _Judged) -> list[tuple[int, str]]:
        """Return what was told about delayed messages of a batch; nothing where some is lost."""
        told: dict[int, tuple[int, str]] = {}
        for claim in one.claims:
            # A loop over messages, but only for those that were sent again, and are delayed.
            for place in np.flatnonzero(claim.found.is_known & (claim.found.offsets < 0)).tolist():
                receipt = self._state.receipt(
                    claim.producer_id, one.batch.topic, int(claim.numbers[place])
                )
                if receipt is None:
                    return []
                told[int(claim.places[place])] = receipt
        return [told[place] for place in sorted(told)]


def _event(
    producer_id: str, numbers: NDArray[np.int64], at: NDArray[np.int64], expected: Appended
) -> Sequenced:
    """Return what says that messages, by their place `at` in a batch, are where it is expected."""
    delayed = expected.is_delayed
    offsets = np.full(len(at), -1) if delayed else expected.queue_offset + at
    is_told = delayed and len(at) <= SEQUENCE_RECEIPTS_OF_EVENT_MAX and bool(expected.due_ms)
    return Sequenced(
        producer_id=producer_id,
        topic=expected.topic,
        queue=expected.queue,
        rows=runs_of_places(numbers, offsets),
        due_ms=tuple(expected.due_ms[place] for place in at.tolist()) if is_told else (),
        handles=tuple(expected.handles[place] for place in at.tolist())
        if is_told and expected.handles
        else (),
    )


def _refuse_twice(judged: Sequence[_Judged]) -> None:
    """Raise MalformedBatch where one request has a number twice, in two of its batches."""
    if len(judged) == 1:
        return
    seen: set[tuple[str, str, int]] = set()
    for one in judged:
        for claim in one.claims:
            numbers = claim.numbers.tolist()
            keys = {(claim.producer_id, one.batch.topic, number) for number in numbers}
            if not seen.isdisjoint(keys):
                raise MalformedBatch("a number is there twice")
            seen |= keys
