"""Random keys, restarts, kills and power cuts: the index is always what the log says."""

import random

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from apps.engine.codec.properties import KEYS, UNIQ_KEY
from apps.engine.searchtypes import SearchRequest
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from tests.engine.broker.indexing import check_index, keys_in_log
from tests.engine.broker.searching import ask, found, opened, publish, send, sync

TOPICS = ("t", "u")
# Aa and BB share a hash; k comes again and again; one is empty, some are no ASCII.
_KEY = st.sampled_from(["k", "k", "Aa", "BB", "", "钥", "🔑", "x" * 70, *map(str, range(20))])
_PROPERTIES = st.fixed_dictionaries(
    {}, optional={KEYS: st.lists(_KEY, max_size=4).map(" ".join), UNIQ_KEY: _KEY, "TAGS": _KEY}
)


class IndexMachine(RuleBasedStateMachine):
    """One store whose keys are told by its log."""

    @initialize(seed=st.integers(0, 1 << 32))
    def start(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock, self.disk = ManualClock(), SimulatedDisk()
        self.broker = opened(self.disk, self.clock)
        publish(self.broker, *TOPICS)
        self.broker.checkpoint()

    @rule(
        topic=st.sampled_from(TOPICS),
        queue=st.integers(0, 2),
        properties=st.lists(_PROPERTIES, min_size=1, max_size=40),
    )
    def send(self, topic: str, queue: int, properties: list[dict[str, str]]) -> None:
        send(self.broker, properties, topic=topic, queue=queue)

    @rule(ms=st.integers(1, 3000))
    def let_time_pass(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule()
    def sync(self) -> None:
        sync(self.broker)

    @rule()
    def settle(self) -> None:
        self.broker.index.settle()

    @rule()
    def checkpoint(self) -> None:
        self.broker.checkpoint()

    @rule()
    def restart(self) -> None:
        self.broker.close()
        self.broker = opened(self.disk, self.clock)

    @rule(mode=st.sampled_from(CrashMode))
    def crash(self, mode: CrashMode) -> None:
        self.disk = self.disk.crash_image(self.rng, mode)
        self.broker = opened(self.disk, self.clock)
        assert self.broker.index.rebuilt_from is None, "a crash threw the index away"
        check_index(self.broker)

    @rule(topic=st.sampled_from(TOPICS), key=_KEY)
    def search(self, topic: str, key: str) -> None:
        sync(self.broker)
        if not key:
            return
        wanted = [
            at
            for at in keys_in_log(self.broker).get((topic, key), [])
            if at < self.broker.log.synced_offset
        ]
        result = ask(self.broker, SearchRequest(topic=topic, key=key, messages_max=256))
        offsets = [record.log_offset for record in found(result)]
        assert set(offsets) <= set(wanted)
        # A unique id is no key of the message; all else that has the key is there.
        by_id = ask(self.broker, SearchRequest(topic=topic, message_id=key, messages_max=256))
        offsets += [record.log_offset for record in found(by_id)]
        assert set(wanted) == set(offsets)
        assert not result.scan_incomplete

    @invariant()
    def files_are_in_order(self) -> None:
        names = [file.name for file in self.broker.index.files]
        assert names == sorted(set(names))

    def teardown(self) -> None:
        if hasattr(self, "broker"):
            check_index(self.broker)


TestIndexAgainstModel = IndexMachine.TestCase
TestIndexAgainstModel.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, print_blob=True
)
