"""Run `manage.py broker` on a disk whose page cache dies with the process.

Killing this process is a power cut. Two canaries show that a test would notice: with
MQWEB_TEST_ACK=early it answers before the sync, with MQWEB_TEST_SYNC=lies the disk says of
the log that it has synced it, and has not.
"""

import os
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

from apps.engine.files.backend import File
from apps.engine.files.posix import PosixDisk
from apps.engine.local import engine
from apps.engine.log.groupcommit import GroupCommit
from apps.engine.testing.volatiledisk import VolatileDisk


async def _answer_early(self: GroupCommit, log_offset: int, *, is_patient: bool = False) -> None:
    del log_offset, is_patient
    self.request_sync()


_open = VolatileDisk.open


def _open_lying(self: VolatileDisk, path: str, *, create: bool = False) -> File:
    file = _open(self, path, create=create)
    if path.startswith("commitlog/"):
        mock.patch.object(file, "sync", return_value=None).start()
    return file


def main() -> None:
    """Put the volatile disk under the engine and run the command."""
    # By `mock`, which refuses to replace what is not there: the disk must be the one in use.
    mock.patch.object(engine, "PosixDisk", lambda path: VolatileDisk(PosixDisk(path))).start()
    if os.environ.get("MQWEB_TEST_ACK") == "early":
        mock.patch.object(GroupCommit, "durable", _answer_early).start()
    if os.environ.get("MQWEB_TEST_SYNC") == "lies":
        mock.patch.object(VolatileDisk, "open", _open_lying).start()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqweb.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", "broker"])


if __name__ == "__main__":
    main()
