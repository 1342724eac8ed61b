"""Offsets of a broadcasting member, in a file of its own. Knows one folder and no requests.

    {"version": 1, "offsets": {"TOPIC": {"QUEUE": OFFSET, ...}, ...}}

The file is replaced whole, and the one before it stays as `.bak`: whatever a crash leaves behind,
one of them can be read. An older one only means that messages come again.
"""

import fcntl
import json
import logging
import os
import threading
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import IO
from urllib.parse import quote

from mqclient.errors import Conflict, InvalidArgument
from mqclient.values import TopicQueue

logger = logging.getLogger("mqclient")

_VERSION = 1


class KeptOffsets:
    """The offsets of one client id and group, which one consumer at a time may keep."""

    def __init__(self, folder: Path, client_id: str, group: str) -> None:
        """Open nothing yet; raise InvalidArgument for a client id no file can have."""
        name = quote(client_id, safe="@#")
        if name in {"", ".", ".."} or len(name) > os.pathconf("/", "PC_NAME_MAX"):
            raise InvalidArgument(f"client_id {client_id!r} is no name of a folder")
        self.path = folder / name / f"{quote(group, safe='')}.json"
        self._backup = self.path.with_suffix(".json.bak")
        self._lock: IO[bytes] | None = None
        # Any listener's thread may find that it is time to save.
        self._writing = threading.Lock()
        self._saved: dict[TopicQueue, int] = {}
        # A file that could not be read must not take the place of the one before it.
        self._is_readable = False

    def open(self) -> dict[TopicQueue, int]:
        """Return what was kept, empty at first; raise Conflict when another consumer has it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = self.path.with_suffix(".lock").open("wb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            self._lock = None
            raise Conflict(f"another consumer keeps its offsets in {self.path}") from error
        self._saved = self._load()
        return dict(self._saved)

    def save(self, offsets: Mapping[TopicQueue, int]) -> None:
        """Keep offsets; a queue not named keeps what it had. OSError is logged. For any thread."""
        with self._writing:
            merged = {**self._saved, **offsets}
            if merged == self._saved:
                return
            try:
                self._replace(_text(merged))
            except OSError:
                logger.exception("offsets cannot be kept in %s", self.path)
            else:
                self._saved = merged
                self._is_readable = True

    def close(self) -> None:
        """Let another consumer have the file."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _load(self) -> dict[TopicQueue, int]:
        for path in (self.path, self._backup):
            try:
                offsets = _offsets(path.read_bytes())
            except FileNotFoundError:
                continue
            except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
                logger.warning("%s cannot be read, looking further: %r", path, error)
            else:
                self._is_readable = path == self.path
                return offsets
        return {}

    def _replace(self, text: bytes) -> None:
        aside = self.path.with_suffix(".json.new")
        with aside.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if self._is_readable:
            self.path.replace(self._backup)
        aside.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _text(offsets: Mapping[TopicQueue, int]) -> bytes:
    topics: dict[str, dict[str, int]] = defaultdict(dict)
    for place, offset in sorted(offsets.items()):
        topics[place.topic][str(place.queue)] = offset
    return json.dumps({"version": _VERSION, "offsets": topics}).encode()


def _offsets(text: bytes) -> dict[TopicQueue, int]:
    document = json.loads(text)
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']!r}")
    return {
        TopicQueue(topic, int(queue)): _checked(offset)
        for topic, queues in document["offsets"].items()
        for queue, offset in queues.items()
    }


def _checked(offset: object) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise ValueError(f"{offset!r} is no offset")
    return offset
