"""Who a store is and how often it was opened. Knows two small files, nothing of messages."""

import secrets
from dataclasses import dataclass

from apps.engine.errors import StoreDamaged, UnknownFormat
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk

STORE = "store"
EPOCH = "epoch"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What is fixed when a store is made. `store_id` is 16 bytes."""

    store_id: bytes
    segment_bytes: int


def load_identity(disk: Disk) -> Identity | None:
    """Return the store's identity, None when there is no store yet.

    Raises StoreDamaged, or UnknownFormat for a store of another version.
    """
    content = atomic.load(disk, STORE)
    if content is None:
        return None
    if content.get("format") != _FORMAT:
        raise UnknownFormat(f"the store has format {content.get('format')}, not {_FORMAT}")
    try:
        store_id = bytes.fromhex(content["store_id"])
        segment_bytes = int(content["segment_bytes"])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreDamaged(f"{STORE} holds something else than an identity") from error
    if len(store_id) != 16 or segment_bytes < 1:
        raise StoreDamaged(f"{STORE} holds an identity that cannot be")
    return Identity(store_id=store_id, segment_bytes=segment_bytes)


def create_identity(disk: Disk, *, segment_bytes: int, failpoints: Failpoints) -> Identity:
    """Give a store an identity of its own, on the disk when this returns."""
    identity = Identity(store_id=secrets.token_bytes(16), segment_bytes=segment_bytes)
    content: dict[str, object] = {
        "format": _FORMAT,
        "store_id": identity.store_id.hex(),
        "segment_bytes": segment_bytes,
    }
    atomic.replace(disk, STORE, content, failpoints=failpoints)
    return identity


def load_epoch(disk: Disk) -> int | None:
    """Return the epoch of the last opening, None when there was none. Raises StoreDamaged."""
    content = atomic.load(disk, EPOCH)
    if content is None:
        return None
    epoch = content.get("epoch")
    if not isinstance(epoch, int) or epoch < 1:
        raise StoreDamaged(f"{EPOCH} holds something else than an epoch")
    return epoch


def store_epoch(disk: Disk, epoch: int, *, failpoints: Failpoints) -> None:
    """Set the epoch, on the disk when this returns: before the first frame that carries it."""
    atomic.replace(disk, EPOCH, {"epoch": epoch}, failpoints=failpoints)
