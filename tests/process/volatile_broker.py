"""Run `manage.py broker` on a disk whose page cache dies with the process.

Killing this process is a power cut. With MQWEB_TEST_ACK=early it answers before the sync: the
canary that shows that the test would notice.
"""

import os
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

from apps.engine.files.posix import PosixDisk
from apps.engine.local import engine
from apps.engine.log.groupcommit import GroupCommit
from apps.engine.testing.volatiledisk import VolatileDisk


async def _answer_early(self: GroupCommit, log_offset: int, *, is_patient: bool = False) -> None:
    del log_offset, is_patient
    self.request_sync()


def main() -> None:
    """Put the volatile disk under the engine and run the command."""
    # By `mock`, which refuses to replace what is not there: the disk must be the one in use.
    mock.patch.object(engine, "PosixDisk", lambda path: VolatileDisk(PosixDisk(path))).start()
    if os.environ.get("MQWEB_TEST_ACK") == "early":
        mock.patch.object(GroupCommit, "durable", _answer_early).start()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqweb.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", "broker"])


if __name__ == "__main__":
    main()
