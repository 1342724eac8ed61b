"""Make the golden store of a compacted topic: `python -m tests.golden.compacted NAME`.

As `make`, and once for each version of the format of kept messages: their log is gone, so what the
archive has of them is all there is.
"""

import asyncio
import json
import sys
from typing import Any

from apps.engine.codec.properties import KEYS
from apps.engine.testing.simdisk import SimulatedDisk
from tests.engine.local.compacting import Model, compacting, put, read_all
from tests.engine.local.keeping import HOUR_MS, Keeping, send
from tests.golden.make import HERE, archive


async def made() -> SimulatedDisk:
    """Return a store with kept messages, a tombstone among them, and some that are in the log."""
    store, model = compacting(), Model()
    async with store.opened() as engine:
        for turn in range(12):
            await put(engine, model, (f"k{turn % 5}", b"%d" % turn * 1000))
        await put(engine, model, ("k1", b""), ("several keys", b"x"))
        await put(engine, model, ("other", b"queue"), queue=1)
        store.clock.advance(73 * HOUR_MS)
        await send(engine, 12, topic="u")
        await put(engine, model, ("k2", b""), ("k3", b"head"))
        assert (await engine.clean_now()).deleted_segments
        await put(engine, model, ("k4", b"head"))
    return store.disk


async def contents_of(disk: SimulatedDisk) -> dict[str, Any]:
    """Open a store and return what a reader gets of the compacted topic."""
    store = Keeping(disk=disk, config=compacting().config, topics=compacting().topics)
    async with store.opened() as engine:
        return {
            "log_start": engine.status().log_start,
            "queues": {
                str(number): [
                    [one.queue_offset, one.log_offset, one.properties[KEYS], one.body.hex()[:16]]
                    for one in await read_all(engine, queue=number)
                ]
                for number in range(2)
            },
            "covered": [held.covered for held in engine.queue_ranges("t")],
            "kept": [held.kept_messages for held in engine.queue_ranges("t")],
        }


if __name__ == "__main__":
    name = sys.argv[1]
    disk = asyncio.run(made())
    (HERE / f"{name}.tar.xz").write_bytes(archive(disk))
    content = json.dumps(asyncio.run(contents_of(disk)), indent=1, sort_keys=True)
    (HERE / f"{name}.json").write_text(content + "\n")
