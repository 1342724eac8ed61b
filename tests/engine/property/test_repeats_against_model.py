"""Random sends of numbered messages, with repeats and crashes, against a table that never forgets.

Few runs are remembered here, so that forgetting happens: then a number may be refused as too old,
but is never stored a second time and never answered with another place.
"""

import copy
import random
from typing import Any
from unittest import mock

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from apps.engine.errors import MalformedBatch, SequenceTooOld
from apps.engine.testing.crashes import CrashMode
from apps.engine.types import Appended
from tests.engine.broker.sendbench import TOPICS, SendBench, batch_of, record

RUNS_MAX = 6
Key = tuple[str, str, int]
keys = st.tuples(st.sampled_from(["p", "q"]), st.sampled_from(sorted(TOPICS)))
numbers = st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True)


class RepeatMachine(RuleBasedStateMachine):
    """A store, where every number ever stored is, and the same as of the last sync."""

    @initialize(seed=st.integers(0, 1 << 32))
    def start(self, seed: int) -> None:
        self.patch = mock.patch("apps.engine.broker.repeatstate.SEQUENCE_RUNS_MAX", RUNS_MAX)
        self.patch.start()
        self.rng = random.Random(seed)
        self.bench = SendBench()
        self.places: dict[Key, tuple[int, int]] = {}
        self.ends: dict[tuple[str, int], int] = {}
        self.stores: dict[tuple[str, str], int] = {}
        self.sync()

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.stop()

    @rule()
    def sync(self) -> None:
        self.bench.sync()
        self.durable = copy.deepcopy((self.places, self.ends, self.stores))

    @rule(key=keys, chosen=numbers, data=st.data())
    def send_bytes(self, key: tuple[str, str], chosen: list[int], data: Any) -> None:
        known = [number for number in chosen if (*key, number) in self.places]
        try:
            answer = self.send(key, chosen, data, by_message=False)
        except SequenceTooOld:
            self.has_forgotten(key)
        except MalformedBatch:
            assert 0 < len(known) < len(chosen)
        else:
            assert len(known) in (0, len(chosen))
            self.compare(key, chosen, answer)

    @rule(key=keys, chosen=numbers, data=st.data())
    def send_messages(self, key: tuple[str, str], chosen: list[int], data: Any) -> None:
        try:
            answer = self.send(key, chosen, data, by_message=True)
        except SequenceTooOld:
            self.has_forgotten(key)
        else:
            self.compare(key, chosen, answer)

    @precondition(lambda self: self.places)
    @rule(data=st.data())
    def send_again(self, data: Any) -> None:
        producer, topic, number = data.draw(st.sampled_from(sorted(self.places)))
        self.send_bytes_of(producer, topic, number, data)

    def send_bytes_of(self, producer: str, topic: str, number: int, data: Any) -> None:
        try:
            answer = self.send((producer, topic), [number], data, by_message=False)
        except SequenceTooOld:
            self.has_forgotten((producer, topic))
        else:
            assert answer.count == 0
            self.compare((producer, topic), [number], answer)

    def send(
        self, key: tuple[str, str], chosen: list[int], data: Any, *, by_message: bool
    ) -> Appended:
        producer, topic = key
        self.queue = data.draw(st.integers(0, TOPICS[topic] - 1))
        records = [
            record(topic, self.queue, body_of(producer, number), producer=producer, number=number)
            for number in chosen
        ]
        batch = batch_of(records, topic, self.queue, by_message=by_message)
        (answer,) = self.bench.append(batch)
        return answer

    def has_forgotten(self, key: tuple[str, str]) -> None:
        assert self.stores.get(key, 0) > RUNS_MAX, "nothing can have been forgotten yet"

    def compare(self, key: tuple[str, str], chosen: list[int], answer: Appended) -> None:
        _, topic = key
        place = (topic, self.queue)
        first = end = self.ends.get(place, 0)
        for index, number in enumerate(chosen):
            known = self.places.get((*key, number))
            assert answer.repeats.get(index) == known
            if known is None:
                self.places[*key, number] = (self.queue, end)
                self.stores[key] = self.stores.get(key, 0) + 1
                end += 1
        if end > first:
            assert (answer.queue, answer.queue_offset, answer.count) == (
                self.queue,
                first,
                end - first,
            )
        self.ends[place] = end

    @rule()
    def checkpoint(self) -> None:
        self.bench.broker.checkpoint()
        self.sync()

    @rule()
    def kill_and_start(self) -> None:
        self.bench.kill_and_open()
        self.sync()
        self.look()

    @rule()
    def stop_and_start(self) -> None:
        self.bench.stop_and_open()
        self.sync()

    @rule()
    def cut_the_power_and_start(self) -> None:
        self.bench.disk = self.bench.disk.crash_image(self.rng, CrashMode.NOTHING)
        self.bench.reopen()
        self.places, self.ends, self.stores = copy.deepcopy(self.durable)
        self.look()

    def look(self) -> None:
        """Compare every queue with what was stored."""
        for topic, count in TOPICS.items():
            for queue in range(count):
                expected = {
                    offset: body_of(producer, number)
                    for (producer, name, number), (where, offset) in self.places.items()
                    if (name, where) == (topic, queue)
                }
                assert self.bench.bodies(topic, queue) == [
                    expected[offset] for offset in range(len(expected))
                ]


def body_of(producer: str, number: int) -> bytes:
    return f"{producer}{number}".encode()


RepeatMachine.TestCase.settings = settings(
    max_examples=50, stateful_step_count=40, deadline=None, print_blob=True
)
TestRepeatsAgainstModel = RepeatMachine.TestCase
