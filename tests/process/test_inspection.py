"""The reader of stores finds nothing wrong with a good one, and whatever is made wrong in it."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.local import LocalEngine
from apps.engine.types import AckMode, CatalogSnapshot, RecordBatch, TopicSpec
from tests.process.inspection import inspect

TOPICS = ("orders", "%b|", "t" * 100 + "|" * 100)
CONFIG = EngineConfig(
    segment_bytes=65_536,
    batch_bytes_max=16_384,
    body_bytes_max=8_192,
    reserve_bytes=0,
    # Few enough for several files, and for chains of several entries.
    index_slots=10,
    index_entries=100,
)
COUNT = 40
_ENTRY_BYTES = 20
_INDEX_START = 40 + 4 * 10


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    """Return a store of several segments that was opened twice and stopped in order."""
    path = tmp_path / "store"
    for first in (0, COUNT // 2):
        engine = await LocalEngine.open(path, CONFIG)
        topics = {name: TopicSpec(name=name, queue_count=1) for name in TOPICS}
        engine.publish_catalog(CatalogSnapshot(version=1 + first, topics=topics))
        for number in range(first, first + COUNT // 2):
            for topic in TOPICS:
                await engine.append(
                    [batch(topic, b"%d:" % number + bytes(1_000), f"k{number} ö all")],
                    ack=AckMode.SYNC,
                )
        await engine.close()
    return path


def batch(topic: str, body: bytes, keys: str) -> RecordBatch:
    properties = encode_properties({"TAGS": "polygenelubricants", "KEYS": keys})
    record = encode_record(topic=topic.encode(), queue=0, body=body, properties=properties)
    sizes = np.array([len(record)], dtype=np.int32)
    return RecordBatch(topic=topic, queue=0, payload=bytearray(record), sizes=sizes)


def test_a_good_store_has_what_was_sent_and_no_fault(store: Path) -> None:
    found = inspect(store)

    assert found.faults == []
    assert found.epochs == [1, 2]
    assert found.ends == {(topic, 0): COUNT for topic in TOPICS}
    numbers = [int(record.body.partition(b":")[0]) for record in found.records["orders", 0]]
    assert numbers == list(range(COUNT))
    assert len(list((store / "commitlog").iterdir())) >= 2
    assert {record.keys for record in found.records["orders", 0]} >= {("k0", "ö", "all")}
    assert len(list((store / "index").iterdir())) >= 3


def change(path: Path, position: int, content: bytes) -> None:
    data = bytearray(path.read_bytes())
    assert data[position : position + len(content)] != content, "nothing is changed"
    data[position : position + len(content)] = content
    path.write_bytes(data)


def queue_file(store: Path) -> Path:
    (path,) = (store / "consumequeue" / "orders" / "0").iterdir()
    return path


def flip_a_body(store: Path) -> None:
    record = inspect(store).records["orders", 0][3]
    change(store / "commitlog" / f"{0:020d}", record.log_offset + 100, b"\xff")


def flip_a_queue_offset(store: Path) -> None:
    record = inspect(store).records["orders", 0][3]
    change(store / "commitlog" / f"{0:020d}", record.log_offset + 27, b"\x77")


def lose_a_segment(store: Path) -> None:
    (store / "commitlog" / f"{CONFIG.segment_bytes:020d}").rename(store / "gone")


def cut_a_queue(store: Path) -> None:
    data = queue_file(store).read_bytes()
    queue_file(store).write_bytes(data[:-_ENTRY_BYTES])


def swap_two_entries(store: Path) -> None:
    data = queue_file(store).read_bytes()
    change(queue_file(store), 0, data[_ENTRY_BYTES : 2 * _ENTRY_BYTES] + data[:_ENTRY_BYTES])


def forget_a_tag(store: Path) -> None:
    change(queue_file(store), 12, struct.pack(">q", 0))


def lose_a_queue(store: Path) -> None:
    queue_file(store).unlink()


def index_file(store: Path) -> Path:
    return min((store / "index").iterdir())


def point_at_another_record(store: Path) -> None:
    """The key's entry names the next record of the log."""
    data = index_file(store).read_bytes()
    first = _INDEX_START + _ENTRY_BYTES
    change(index_file(store), first + 4, data[first + 4 + 4 * _ENTRY_BYTES :][:8])


def forget_a_key(store: Path) -> None:
    change(index_file(store), _INDEX_START + _ENTRY_BYTES, struct.pack(">i", 7))


def cut_a_chain(store: Path) -> None:
    data = index_file(store).read_bytes()
    slot = next(n for n in range(10) if struct.unpack_from(">i", data, 40 + 4 * n) != (0,))
    change(index_file(store), 40 + 4 * slot, struct.pack(">i", 0))


@pytest.mark.parametrize(
    "harm",
    [
        flip_a_body, flip_a_queue_offset, lose_a_segment, cut_a_queue, swap_two_entries,
        forget_a_tag, lose_a_queue, point_at_another_record, forget_a_key, cut_a_chain,
    ],
)  # fmt: skip
def test_a_store_that_is_not_whole_is_noticed(store: Path, harm: Callable[[Path], None]) -> None:
    harm(store)

    assert inspect(store).faults != []
