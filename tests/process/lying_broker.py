"""Run `manage.py broker` on a disk that says of every file it has synced it, and has not.

A canary: whoever copies the disk under it must find that acknowledged messages are missing.
"""

import os
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

from apps.engine.files.posix import PosixDisk, PosixFile
from apps.engine.local import engine


def main() -> None:
    """Put the lying disk under the engine and run the command."""
    # By `mock`, which refuses to replace what is not there: the disk must be the one in use.
    assert engine.PosixDisk is PosixDisk
    mock.patch.object(PosixFile, "sync", return_value=None).start()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqweb.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", "broker"])


if __name__ == "__main__":
    main()
