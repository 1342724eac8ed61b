"""The small files of a store: whole, readable, and in agreement with the log."""

from collections.abc import Iterator

from apps.engine.broker import catalogfile
from apps.engine.broker.catalog import FILE as CATALOG
from apps.engine.errors import EngineError
from apps.engine.files import atomic
from apps.engine.log import checkpoint
from apps.engine.log.identity import load_epoch
from apps.engine.log.quarantine import load_ranges
from apps.engine.verify.findings import Finding, Kind
from apps.engine.verify.store import Store


def files(store: Store) -> Iterator[Finding]:
    """Look at the epoch, the checkpoint of the log and the manifest of the quarantine."""
    try:
        known = checkpoint.load_checkpoint(store.disk)
    except EngineError as error:
        yield Finding(kind=Kind.FILES, place=checkpoint.PATH, detail=str(error))
        known = None
    try:
        epoch = load_epoch(store.disk)
        if epoch is None or (known is not None and known.epoch > epoch):
            yield Finding(kind=Kind.FILES, place="epoch", detail="is missing, or too low")
    except EngineError as error:
        yield Finding(kind=Kind.FILES, place="epoch", detail=str(error))
    if known is not None:
        store.reach(known.synced_offset)
    if known is not None and not store.segments.start <= known.synced_offset <= store.segments.end:
        detail = f"the log was synced up to {known.synced_offset}, which no segment holds"
        yield Finding(kind=Kind.FILES, place=checkpoint.PATH, detail=detail)
    try:
        load_ranges(store.disk)
    except EngineError as error:
        yield Finding(kind=Kind.FILES, place="quarantine/manifest", detail=str(error))


def catalog(store: Store) -> Iterator[Finding]:
    """Look at the topics and groups as last published."""
    try:
        content = atomic.load(store.disk, CATALOG)
        if content is not None:
            catalogfile.load(content)
    except EngineError as error:
        yield Finding(kind=Kind.CATALOG, place=CATALOG, detail=str(error))
    except (KeyError, TypeError, ValueError):
        detail = "holds something else than a catalog"
        yield Finding(kind=Kind.CATALOG, place=CATALOG, detail=detail)
