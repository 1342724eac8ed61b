"""Run `manage.py broker` on a disk whose syncs take as long as a file says, and may fail.

While `<data>/hang` is there, a sync of the log does not return; `<data>/slow` holds how many
milliseconds each takes. `<data>/hung` is made when the first sync hangs, so that a test knows.
"""

import os
import sys
import time
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

from apps.engine.files.posix import PosixDisk, PosixFile
from apps.engine.local import engine

_LOOK_S = 0.01
_sync = PosixFile.sync


def _slowly(data: Path, file: PosixFile) -> None:
    """Stand for a disk that hangs: first wait, then sync."""
    slow = data / "slow"
    if slow.exists():
        time.sleep(int(slow.read_text()) / 1000)
    while (data / "hang").exists():
        (data / "hung").touch()
        time.sleep(_LOOK_S)
    _sync(file)


def main() -> None:
    """Put the slow disk under the engine and run the command."""
    data = Path(os.environ["MQWEB_DATA"])
    # By `mock`, which refuses to replace what is not there: the disk must be the one in use.
    assert engine.PosixDisk is PosixDisk
    mock.patch.object(PosixFile, "sync", lambda file: _slowly(data, file)).start()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqweb.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", "broker"])


if __name__ == "__main__":
    main()
