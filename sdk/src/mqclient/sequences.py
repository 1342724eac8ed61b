"""Finding lost messages: a number in every message of a producer and queue, looked at on arrival.

Knows messages only. Two interceptors, `SequenceNumbering` for producers and `SequenceChecker` for
consumers that read a queue whole: with a filter, or where other consumers take a part of a queue,
numbers are missing that nobody lost.
"""

import logging
import secrets
import threading
from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mqclient.clock import Clock, SystemClock
from mqclient.errors import InvalidArgument, MqError
from mqclient.values import OutgoingMessage, SendResult
from mqclient.wire.properties import ORIGIN_QUEUE
from mqclient.wire.records import RETRY_PREFIX, Message

logger = logging.getLogger("mqclient")

PRODUCER_PROPERTY = "SEQ_PRODUCER"
NUMBER_PROPERTY = "SEQ_NUMBER"
EPOCH_PROPERTY = "SEQ_EPOCH"
_NUMBER_MAX = (1 << 63) - 1

_Key = tuple[str, int, str, int]
"""Producer, epoch, topic, queue."""


class SequenceNumbering:
    """Numbers a producer's messages queue by queue, from 1 on, in the properties SEQ_PRODUCER,
    SEQ_EPOCH and SEQ_NUMBER.

    A number is given when a message's queue is settled and kept whenever it is sent again. One
    whose message is not stored in the end stays missing, which is what a consumer then finds.
    Delayed messages and those of transactions are not numbered. One object numbers for one
    producer.
    """

    def __init__(
        self, producer: str | None = None, *, epoch: int | None = None, clock: Clock | None = None
    ) -> None:
        """Number under a name, by default one that nobody else has.

        `epoch` tells the runs of one name apart, whose numbers each begin anew: a later run has a
        higher one, by default the wall ms at which it began. Raise InvalidArgument below 0.
        """
        if epoch is not None and not 0 <= epoch < _NUMBER_MAX:
            raise InvalidArgument(f"epoch is 0 or more, not {epoch}")
        self.producer = producer or secrets.token_hex(8)
        self.epoch = (clock or SystemClock()).wall_ms() if epoch is None else epoch
        self._numbers: dict[tuple[str, int], int] = defaultdict(int)
        self._lock = threading.Lock()

    def before_send(self, message: OutgoingMessage) -> OutgoingMessage:
        """Leave the message as it is: its queue is not known yet."""
        return message

    def after_send(
        self, message: OutgoingMessage, result: SendResult | None, error: MqError | None
    ) -> None:
        """Do nothing: the number is given whether the message arrives or not."""

    def for_queue(self, topic: str, queue: int) -> Mapping[str, str]:
        """Return the next number of a queue."""
        with self._lock:
            self._numbers[topic, queue] += 1
            number = self._numbers[topic, queue]
        return {
            PRODUCER_PROPERTY: self.producer,
            EPOCH_PROPERTY: str(self.epoch),
            NUMBER_PROPERTY: str(number),
        }


class Irregularity(StrEnum):
    """What is wrong with the numbers of a queue."""

    GAP = "gap"
    """Numbers were passed over: their messages are lost, or still on their way."""
    LATE = "late"
    """A missing number came after all."""
    REPEAT = "repeat"
    """A number came again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Numbers `first` to `last` of one producer in one queue, and what is wrong with them.

    `epoch` is the producer's run, 0 where it tells none.
    """

    kind: Irregularity
    producer: str
    topic: str
    queue: int
    first: int
    last: int
    epoch: int = 0

    @property
    def count(self) -> int:
        """Return how many numbers these are."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceReport:
    """What a checker has found; `missing` are the gaps that are open now.

    `given_up_count` numbers were missing too, and are not waited for any more because there were
    more gaps than the checker keeps; one of them that comes counts as a repeat.
    """

    received_count: int
    repeat_count: int
    late_count: int
    missing: tuple[Finding, ...]
    given_up_count: int

    @property
    def missing_count(self) -> int:
        """Return how many messages have not come."""
        return self.given_up_count + sum(gap.count for gap in self.missing)


class _Run:
    """The numbers of one producer in one queue: what is next, and what is missing before it."""

    __slots__ = ("missing", "next")

    def __init__(self, first: int) -> None:
        self.next = first
        # Ranges, both ends included, ascending.
        self.missing: list[tuple[int, int]] = []

    def take(self, number: int) -> tuple[Irregularity, int, int] | None:
        """Take a number; return what is wrong, with the numbers it is about."""
        if number >= self.next:
            passed = self.next, number - 1
            self.next = number + 1
            if passed[0] > passed[1]:
                return None
            self.missing.append(passed)
            return Irregularity.GAP, *passed
        kind = Irregularity.LATE if self._fill(number) else Irregularity.REPEAT
        return kind, number, number

    def _fill(self, number: int) -> bool:
        index = bisect_right(self.missing, (number, _NUMBER_MAX)) - 1
        if index < 0 or number > self.missing[index][1]:
            return False
        first, last = self.missing[index]
        rest = ((first, number - 1), (number + 1, last))
        self.missing[index : index + 1] = [part for part in rest if part[0] <= part[1]]
        return True


class SequenceChecker:
    """Looks whether the numbers of each producer in each queue are complete, run by run.

    The first number seen of a producer in a queue is where the looking begins, or number 1 where
    `is_from_first` says that the queue is read from its first message on. `on_finding` is called
    with everything that is wrong, by the thread that received it. A message that comes again after
    a failure is no repeat, and fills a gap. Memory is bounded: `runs_max` producers and queues, of
    which the one not seen for longest is forgotten, and `gaps_max` gaps of each.
    """

    def __init__(
        self,
        *,
        on_finding: Callable[[Finding], object] | None = None,
        is_from_first: bool = False,
        runs_max: int = 10_000,
        gaps_max: int = 1_000,
    ) -> None:
        """Raise InvalidArgument for bounds below 1."""
        if runs_max < 1 or gaps_max < 1:
            raise InvalidArgument("runs_max and gaps_max are 1 or more")
        self._on_finding = on_finding
        self._is_from_first = is_from_first
        self._runs_max = runs_max
        self._gaps_max = gaps_max
        self._runs: OrderedDict[_Key, _Run] = OrderedDict()
        self._counts = dict.fromkeys(Irregularity, 0)
        self._received_count = 0
        self._given_up_count = 0
        self._lock = threading.Lock()

    def after_receive(self, messages: Sequence[Message]) -> None:
        """Take the numbers of messages, in their order; those without a number are passed over."""
        findings = []
        with self._lock:
            for message in messages:
                finding = self._look(message)
                if finding is not None:
                    findings.append(finding)
        for finding in findings:
            if self._on_finding is not None:
                self._on_finding(finding)

    def queue_begins(self, topic: str, queue: int) -> None:
        """Begin anew in a queue: meanwhile another may have read it. Its open gaps are given up."""
        with self._lock:
            for key in [key for key in self._runs if key[2:] == (topic, queue)]:
                self._give_up(self._runs.pop(key).missing)

    def report(self) -> SequenceReport:
        """Return what was found up to now."""
        with self._lock:
            return SequenceReport(
                received_count=self._received_count,
                repeat_count=self._counts[Irregularity.REPEAT],
                late_count=self._counts[Irregularity.LATE],
                missing=tuple(
                    _finding(Irregularity.GAP, key, *gap)
                    for key, run in self._runs.items()
                    for gap in run.missing
                ),
                given_up_count=self._given_up_count,
            )

    def _look(self, message: Message) -> Finding | None:
        found = _numbered(message)
        if found is None:
            return None
        key, number, is_again = found
        self._received_count += 1
        run = self._runs.get(key)
        if run is None:
            if is_again:
                return None
            run = self._runs[key] = _Run(1 if self._is_from_first else number)
            if len(self._runs) > self._runs_max:
                self._give_up(self._runs.popitem(last=False)[1].missing)
        self._runs.move_to_end(key)
        if is_again and number >= run.next:
            # Out of its place: what lies between was not passed over by this.
            return None
        wrong = run.take(number)
        if len(run.missing) > self._gaps_max:
            self._give_up([run.missing.pop(0)])
        if wrong is None or (is_again and wrong[0] is Irregularity.REPEAT):
            return None
        if wrong[0] is not Irregularity.GAP:
            self._counts[wrong[0]] += 1
        return _finding(wrong[0], key, wrong[1], wrong[2])

    def _give_up(self, gaps: list[tuple[int, int]]) -> None:
        self._given_up_count += sum(last - first + 1 for first, last in gaps)


def _numbered(message: Message) -> tuple[_Key, int, bool] | None:
    """Return whose number a message has, the number, and whether the message comes again."""
    properties = message.properties
    producer, text = properties.get(PRODUCER_PROPERTY), properties.get(NUMBER_PROPERTY)
    if producer is None or text is None or not (text.isascii() and text.isdigit()):
        return None
    number = int(text) if len(text) < 20 else 0
    epoch = properties.get(EPOCH_PROPERTY, "0")
    is_epoch = epoch.isascii() and epoch.isdigit() and len(epoch) < 20
    if not 0 < number < _NUMBER_MAX or not is_epoch:
        # A stranger's text, not ours.
        return None
    queue = message.queue
    if message.stored_topic.startswith(RETRY_PREFIX):
        origin = properties.get(ORIGIN_QUEUE, "")
        if not (origin.isascii() and origin.isdigit() and len(origin) < 10):
            return None
        queue = int(origin)
    is_again = message.reconsume_times > 0 or (message.delivery_attempt or 1) > 1
    return (producer, int(epoch), message.topic, queue), number, is_again


def _finding(kind: Irregularity, key: _Key, first: int, last: int) -> Finding:
    producer, epoch, topic, queue = key
    return Finding(
        kind=kind,
        producer=producer,
        epoch=epoch,
        topic=topic,
        queue=queue,
        first=first,
        last=last,
    )
