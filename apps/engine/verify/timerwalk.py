"""Runs of delayed messages: each block and record by its checksum. Knows the manifest."""

from collections.abc import Iterator

import numpy as np

from apps.engine.derived.timer.manifest import PATH, load_manifest
from apps.engine.derived.timer.rows import Places
from apps.engine.derived.timer.runfile import Run, crcs_of
from apps.engine.errors import EngineError
from apps.engine.verify.findings import Finding, Kind
from apps.engine.verify.store import Store


def timers(store: Store) -> Iterator[Finding]:
    """Read every run the manifest names, whole."""
    try:
        manifest = load_manifest(store.disk)
    except EngineError as error:
        yield Finding(kind=Kind.TIMERS, place=PATH, detail=str(error))
        return
    for place in manifest.runs:
        try:
            run = Run(store.disk, place, store_id=store.identity.store_id, places=Places())
        except EngineError as error:
            yield Finding(kind=Kind.TIMERS, place=place.path, detail=str(error))
            continue
        try:
            yield from _blocks(run)
        finally:
            run.close()


def _blocks(run: Run) -> Iterator[Finding]:
    for block in range(run.block_count):
        try:
            rows = run.block(block, wait=True)
            payload = run.records(rows["position"], rows["size_bytes"], wait=True)
        except EngineError as error:
            yield Finding(kind=Kind.TIMERS, place=run.place.path, detail=str(error))
            continue
        is_right = crcs_of(payload, rows["size_bytes"]) == rows["crc"]
        for row in np.flatnonzero(~is_right).tolist():
            detail = f"delayed message {int(rows['number'][row])} does not have its checksum"
            yield Finding(kind=Kind.TIMERS, place=run.place.path, detail=detail)
