"""Small files that are replaced whole: after a crash the old content or the new, never a mixture.

Knows the envelope of docs/FORMAT.md section 6, not what is in it.
"""

import json
import struct
import zlib
from typing import Any

from apps.engine.errors import EngineError, StoreDamaged, UnknownFormat
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk
from apps.engine.files.refusals import write_refusal

_MAGIC = b"MQWS"
_VERSION = 1
_ENVELOPE = struct.Struct(">4sHHII")

assert _ENVELOPE.size == 16


def replace(
    disk: Disk, path: str, content: dict[str, object], *, failpoints: Failpoints | None = None
) -> None:
    """Make `content` what the file holds; it is on the disk when this returns.

    The directory is made when it is absent. Raises StoreFull, WriteFailed or SyncFailed; the file
    then holds the old content or the new.
    """
    failpoints = failpoints or Failpoints()
    directory = path.rpartition("/")[0]
    aside = f"{path}.new"
    if directory:
        disk.make_directory(directory)
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    envelope = _ENVELOPE.pack(_MAGIC, _VERSION, 0, len(data), zlib.crc32(data))
    file = disk.open(aside, create=True)
    try:
        # A crash may have left a longer one behind.
        file.truncate(0)
        file.write(0, [envelope, data])
        file.sync()
    except EngineError:
        disk.remove(aside)
        raise
    finally:
        file.close()
    _pass(failpoints, "checkpoint.before_replace", path)
    disk.rename(aside, path)
    disk.sync_directory(directory)
    _pass(failpoints, "checkpoint.after_replace", path)


def load(disk: Disk, path: str) -> dict[str, Any] | None:
    """Return the content, or None when there is no such file.

    Raises StoreDamaged when it is not what was written, UnknownFormat when it was written by a
    later version. Values are JSON's, and the caller checks them.
    """
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        data = bytearray(file.size())
        data = data[: file.read_into(0, memoryview(data))]
    finally:
        file.close()
    if len(data) < _ENVELOPE.size or data[:4] != _MAGIC:
        raise StoreDamaged(f"{path} does not begin as a file of a store")
    _, version, reserved, size_bytes, crc = _ENVELOPE.unpack_from(data)
    if version != _VERSION:
        raise UnknownFormat(f"{path} has version {version}, this engine knows {_VERSION}")
    body = data[_ENVELOPE.size :]
    if reserved or len(body) != size_bytes or zlib.crc32(body) != crc:
        raise StoreDamaged(f"{path} does not have its checksum")
    content = json.loads(body)
    if not isinstance(content, dict):
        raise StoreDamaged(f"{path} holds something else than an object")
    return content


def _pass(failpoints: Failpoints, name: str, path: str) -> None:
    try:
        failpoints.hit(name)
    except OSError as error:
        raise write_refusal(error, f"cannot replace {path}") from error
