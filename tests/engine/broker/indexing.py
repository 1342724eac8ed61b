"""What an index must hold, told by the log alone, and what it does hold; for tests."""

from collections import defaultdict

from apps.engine.broker.core import Broker
from apps.engine.codec.record import decode_record
from apps.engine.config import EngineConfig
from apps.engine.derived.index.keyindex import KeyIndex
from apps.engine.derived.index.walk import KeyWalk
from apps.engine.derived.stretch import Stretch
from apps.engine.failpoints import Failpoints
from apps.engine.testing.simdisk import SimulatedDisk
from tests.engine.broker.searching import CONFIG

Content = list[tuple[list[object], bytes]]


def keys_in_log(broker: Broker, log_start: int = 0) -> dict[tuple[str, str], list[int]]:
    """Return the log offsets of each key of each topic, the newest first: a plain walk."""
    model: dict[tuple[str, str], list[int]] = defaultdict(list)
    for frame in broker.log.frames(broker.log.log_start):
        at = 0
        for size in frame.header.sizes.tolist():
            record = decode_record(frame.payload, at)
            at += size
            properties = record.properties
            texts = {properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")}
            for text in texts - {""}:
                if record.log_offset >= log_start:
                    model[record.topic, text].insert(0, record.log_offset)
    return model


def offsets_of(index: KeyIndex, topic: str, key: str) -> list[int]:
    """Return all that the index has for a key, a few entries a step."""
    walk = KeyWalk(index, topic, key)
    found = []
    while not walk.is_over:
        found += walk.step(entries_max=5, found_max=3, wait=True)
    assert not walk.has_gap
    return found


def content_of(index: KeyIndex) -> Content:
    """Return what the files are said to be, and their entries."""
    index.settle()
    return [(file.row(), file.entries(1, file.count, wait=True).tobytes()) for file in index.files]


def rebuilt(broker: Broker, config: EngineConfig = CONFIG) -> KeyIndex:
    """Return an index made of the log alone, on a disk of its own."""
    index = KeyIndex(SimulatedDisk(), config=config, failpoints=Failpoints())
    start = index.load(log_start=broker.log.log_start, log_end=broker.log.written_offset)
    for frames in broker.log.stretches(start):
        index.dispatch(Stretch(frames))
    return index


def check_index(broker: Broker) -> None:
    """Compare the index with the log, and with an index made of nothing but the log."""
    assert content_of(broker.index) == content_of(rebuilt(broker)), "not what a rebuild makes"
    model = keys_in_log(broker)
    for (topic, key), offsets in model.items():
        candidates = offsets_of(broker.index, topic, key)
        assert candidates == sorted(set(candidates), reverse=True), "not the newest first"
        assert set(offsets) <= set(candidates), f"{key} of {topic} is not found everywhere"
