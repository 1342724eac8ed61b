"""Kept messages of compacted topics: every row and record by its checksum. Knows the manifests."""

from collections.abc import Iterator

import numpy as np

from apps.engine.broker.compactionround import open_part
from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import Record, decode_record
from apps.engine.derived.compacted import layout, manifest
from apps.engine.derived.compacted.keys import newest
from apps.engine.derived.compacted.layout import ROW, Rows
from apps.engine.derived.compacted.part import Part, PartDamaged
from apps.engine.errors import EngineError
from apps.engine.verify.findings import Finding, Kind
from apps.engine.verify.store import Store


def compacted(store: Store) -> Iterator[Finding]:
    """Read every file that a manifest names, whole."""
    for directory in manifest.directories(store.disk):
        try:
            # What is damaged about it is a finding, though another file counts then.
            named = manifest.load_place(store.disk, directory)
            place = manifest.counting(store.disk, directory)
            if place is None:
                continue
            if named is not None and named != place:
                yield _finding(directory, "the file that its manifest names is missing")
            if layout.directory(place.topic, place.queue) != directory:
                yield _finding(directory, f"its manifest is of queue {place.topic}/{place.queue}")
                continue
            part = open_part(store.disk, place, store_id=store.identity.store_id.hex())
        except EngineError as error:
            yield _finding(directory, str(error))
            continue
        except FileNotFoundError:
            yield _finding(directory, "the file that its manifest names is missing")
            continue
        try:
            yield from _part(part)
        finally:
            part.close()


def kept_records(store: Store) -> Iterator[tuple[Part, Record | PartDamaged]]:
    """Iterate over all kept messages, and what is damaged among them. Raises StoreDamaged."""
    for place in manifest.places(store.disk):
        try:
            part = open_part(store.disk, place, store_id=store.identity.store_id.hex())
        except FileNotFoundError:
            continue
        try:
            for number in range(part.block_count):
                for found in _read(part, number):
                    if isinstance(found, PartDamaged):
                        yield part, found
                        continue
                    for at in starts_of(found[0]["size_bytes"].astype(np.int32)).tolist():
                        yield part, decode_record(found[1], at)
        finally:
            part.close()


def _part(part: Part) -> Iterator[Finding]:
    all_rows: list[Rows] = []
    for number in range(part.block_count):
        for found in _read(part, number):
            if isinstance(found, PartDamaged):
                yield _finding(part.path, str(found))
                continue
            rows, records = found
            all_rows += [rows] if len(rows) else []
            yield from _records(part, rows, records)
    if not all_rows:
        return
    rows = np.empty(sum(map(len, all_rows)), dtype=ROW)
    np.concatenate(all_rows, out=rows)
    offsets = rows["queue_offset"].astype(np.int64)
    is_in_order = (np.diff(offsets) > 0).all()
    if not is_in_order or offsets[0] < part.begin or offsets[-1] >= part.stop:
        yield _finding(part.path, "its queue offsets are not in order, or not its own")
    if len(newest(rows)) < len(rows):
        yield _finding(part.path, "it has two messages of one key")


def _read(part: Part, number: int) -> Iterator[tuple[Rows, memoryview] | PartDamaged]:
    """Read a block, once for each place of damage in it, and then what is right."""
    while True:
        try:
            rows = part.block(number, wait=True)
            yield rows, part.records(rows, wait=True)
            return
        except PartDamaged as error:
            yield error
            if not part.pass_over(error):
                return


def _records(part: Part, rows: Rows, records: memoryview) -> Iterator[Finding]:
    starts = starts_of(rows["size_bytes"].astype(np.int32)).tolist()
    for row, at in zip(rows, starts, strict=True):
        record = decode_record(records, at)
        is_its = (
            record.topic == part.topic
            and record.queue == part.queue
            and record.queue_offset == int(row["queue_offset"])
            and record.log_offset == int(row["log_offset"])
            and record.size_bytes == int(row["size_bytes"])
        )
        if not is_its:
            yield _finding(part.path, f"message {int(row['queue_offset'])} is another's")


def _finding(place: str, detail: str) -> Finding:
    return Finding(kind=Kind.COMPACTED, place=place, detail=detail)
