"""The newest entry, kept outside the database, so that cutting off the end is noticed.

Knows one small file and the newest row. A chain says by itself that nothing inside it was changed;
that its end is missing, or that all of it was written anew, only something outside can say.
"""

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from apps.audit.chain import Head
from apps.audit.models import HASH_CHARACTERS, AuditEntry
from apps.bridge.secretfiles import PRIVATE_FILE

FILE = "audit-head"

_log = logging.getLogger("mqweb.audit")


@dataclass(slots=True)
class HeadKeeper:
    """Writes number and digest of the newest entry to the log and to a file, when they change.

    A file that says of a later entry than there is, or of another one, is left as it is: it is
    what tells that something is missing. That is logged once.
    """

    path: Path
    _known: Head | None = None
    _has_complained: bool = False

    def keep(self) -> bool:
        """Look at the newest entry; say whether the file was written."""
        newest = _newest()
        if newest is None and self._known is None and not self.path.exists():
            return False
        kept = self._known or read(self.path)
        if newest == kept:
            self._known = kept
            return False
        if kept is not None and not _is_in_the_chain(kept):
            self._complain(kept, newest)
            return False
        if newest is None:
            return False
        write(self.path, newest)
        self._known, self._has_complained = newest, False
        _log.info("audit_head", extra={"number": newest.number, "hash": newest.hash})
        return True

    def _complain(self, kept: Head, newest: Head | None) -> None:
        # Read again each time: who has looked into it removes the file.
        self._known = None
        if not self._has_complained:
            extra = {"kept": kept.number, "newest": 0 if newest is None else newest.number}
            _log.error("audit_head_missing", extra=extra)
        self._has_complained = True


def read(path: Path) -> Head | None:
    """Return the head in a file; None where there is no file.

    Raises ValueError for a file that holds no head.
    """
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} holds no head: {error}") from error
    fields = found if isinstance(found, dict) else {}
    return head_of(f"{fields.get('number')}:{fields.get('hash')}")


def head_of(text: str) -> Head:
    """Return a head out of `number:hash`; raise ValueError for any other text."""
    number, _, found = text.partition(":")
    is_hash = len(found) == HASH_CHARACTERS and set(found) <= set("0123456789abcdef")
    if not (number.isascii() and number.isdigit() and len(number) <= 18 and is_hash):
        raise ValueError(f"{text[:100]!r} is no head: it must be NUMBER:HASH")
    return Head(number=int(number), hash=found)


def write(path: Path, head: Head) -> None:
    """Replace the head in a file; after a power cut there is the old one or the new one."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(descriptor, "w") as file:
        file.write(json.dumps({"number": head.number, "hash": head.hash}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _newest() -> Head | None:
    row = AuditEntry.objects.order_by("-number").values_list("number", "hash").first()
    return None if row is None else Head(number=row[0], hash=row[1])


def _is_in_the_chain(head: Head) -> bool:
    return AuditEntry.objects.filter(number=head.number, hash=head.hash).exists()
