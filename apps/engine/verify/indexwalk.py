"""The key index: each file as its checkpoint has it. Knows files and their sums, no records."""

from collections.abc import Iterator

from apps.engine.derived.filecache import FileCache
from apps.engine.derived.index.indexfile import IndexDamaged, IndexFile
from apps.engine.derived.index.keyindex import CHECKPOINT
from apps.engine.errors import EngineError
from apps.engine.files import atomic
from apps.engine.verify.findings import Finding, Kind
from apps.engine.verify.store import Store


def index(store: Store) -> Iterator[Finding]:
    """Read every file that the checkpoint names, whole.

    One that a running broker has dropped meanwhile, with the log it was about, is passed over.
    """
    try:
        content = atomic.load(store.disk, CHECKPOINT)
    except EngineError as error:
        yield Finding(kind=Kind.INDEX, place=CHECKPOINT, detail=str(error))
        return
    if content is None:
        return  # Nothing is promised: the next start makes it anew.
    cache = FileCache(store.disk)
    try:
        for row in content["files"]:
            file = IndexFile.kept(cache, row)
            if file.end_offset < store.segments.start:
                continue
            try:
                file.verify()
            except (IndexDamaged, EngineError) as error:
                yield Finding(kind=Kind.INDEX, place=file.path, detail=str(error))
    finally:
        cache.close()
