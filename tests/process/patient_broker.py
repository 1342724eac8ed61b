"""Run `manage.py broker` so that it asks no viewer whether he is still there.

Who reads nothing answers no ping either, and would be sent away after 40 s: a machine under load
needs as long to show what is put aside for him until then.
"""

import os
import sys
from functools import partial
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

import uvicorn


def main() -> None:
    """Have the server's sockets without pings, and run the command."""
    mock.patch.object(uvicorn, "Config", partial(uvicorn.Config, ws_ping_interval=None)).start()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqweb.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", "broker"])


if __name__ == "__main__":
    main()
