"""Make a golden store: `python -m tests.golden.make NAME`, once for each version of the format.

A store that was made once is never made again: every later version must open it as it is. The
archive is a tar of the files as a kill leaves them, without the zeros at the end of each segment;
the JSON beside it says what readers must get. Needs `PYTHONPATH` to have the repository's root.
"""

import io
import json
import sys
import tarfile
from pathlib import Path

import numpy as np

from apps.engine.broker.burying import Burial
from apps.engine.broker.core import Broker
from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import TIMER_DELIVER_MS, encode_properties
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.transactiontypes import Outcome
from apps.engine.types import ReceiveRequest, RecordBatch
from tests.engine.damage.stores import GROUP, HOUR_MS, filled, opened, send, take
from tests.golden.contents import contents_of

HERE = Path(__file__).parent


def made() -> SimulatedDisk:
    """Return a store with something of everything, killed while it was written to."""
    disk = filled(messages=150, seed=20)
    broker = opened(disk)
    due_ms = broker.clock.wall_ms() + HOUR_MS
    # Delay levels, and a delay of its own that is in the log and in no run.
    send(broker, [record(b"level", {"DELAY": "5"})], topic="orders", queue=1)
    send(broker, [record(b"own", {TIMER_DELIVER_MS: str(due_ms)})], topic="orders", queue=1)
    transactions(broker)
    dead_letters(broker)
    numbered = encode_properties({"PRODUCER_ID": "p", "PRODUCER_SEQ": "7"})
    one = encode_record(topic=b"orders", queue=0, body=b"numbered", properties=numbered)
    broker.repeats.append(broker.appender.check([batch_of(one)]))
    take(broker, 7, settle=True)
    broker.checkpoint()
    # An unclean tail: behind the checkpoint, and a torn frame behind that.
    send(broker, [record(b"behind the checkpoint", {})], topic="orders", queue=1)
    broker.log.sync()
    broker.show_synced()
    end = broker.log.written_offset
    torn = send(broker, [record(b"torn" * 50, {})], topic="orders", queue=1)
    assert torn.log_offset > end
    base = end - end % 65_536
    disk.open(f"commitlog/{base:020d}").write(broker.log.written_offset - base - 100, [bytes(100)])
    return disk


def record(body: bytes, properties: dict[str, str]) -> bytes:
    section = encode_properties(properties)
    return encode_record(topic=b"orders", queue=1, body=body, properties=section)


def batch_of(one: bytes, *, queue: int = 0) -> RecordBatch:
    sizes = np.array([len(one)], dtype=np.int32)
    return RecordBatch(topic="orders", queue=queue, payload=bytearray(one), sizes=sizes)


def transactions(broker: Broker) -> None:
    """Begin three transactions: one is committed, one rolled back, one left open."""
    for outcome in (Outcome.COMMITTED, Outcome.ROLLED_BACK, None):
        half = batch_of(record(b"half %d" % broker.log.written_offset, {}), queue=1)
        begun = broker.transactions.begin(half, producer_group="shop", check_immunity_ms=None)
        if outcome is not None:
            broker.transactions.end(begun.transaction_id, outcome, wait=True)


def dead_letters(broker: Broker) -> None:
    """Give messages back for good: they become dead letters of the group."""
    broker.log.sync()
    broker.show_synced()
    request = ReceiveRequest(group=GROUP, topics=("a.b|c",), messages_max=2, client_id="c")
    (lease,) = broker.receive(request).leases
    starts = starts_of(lease.block.sizes).tolist()
    offsets = [decode_record(lease.block.payload, at).queue_offset for at in starts]
    handles = [f"{lease.token}:{offset}" for offset in offsets]
    for failure in broker.settler.last_failures(GROUP, handles, delay_level=-1):
        past = failure.entry.given_back(broker.clock.wall_ms(), "broken")
        burial = Burial(entry=failure.entry, offsets=failure.offsets, past=past)
        while len(burial.offsets):
            broker.burying.bury(burial, broker.burying.read(burial, wait=True))


def archive(disk: SimulatedDisk) -> bytes:
    """Return the files as a compressed tar; segments without the zeros at their end."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:xz") as tar:
        for path, data in sorted(disk.content().items()):
            kept = data.rstrip(b"\0") if path.startswith("commitlog/") else data
            entry = tarfile.TarInfo(path)
            entry.size = len(kept)
            tar.addfile(entry, io.BytesIO(kept))
    return target.getvalue()


if __name__ == "__main__":
    name = sys.argv[1]
    store = made()
    (HERE / f"{name}.tar.xz").write_bytes(archive(store))
    content = json.dumps(contents_of(store), indent=1, sort_keys=True, ensure_ascii=False)
    (HERE / f"{name}.json").write_text(content + "\n")
