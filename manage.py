#!/usr/bin/env python
"""The command line of the product. Turns flags into variables before settings are read."""

import os
import sys

from apps.bridge import flags
from apps.bridge.exits import Exit
from mqweb import env


def main() -> int:
    """Run one command; refuse settings that cannot be served with a sentence and exit code 2."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqweb.settings")
    os.environ.update(flags.variables_of(sys.argv[1:]))
    try:
        env.read(os.environ)
    except env.Refused as refused:
        print(f"mqweb: {refused}", file=sys.stderr)
        return Exit.REFUSED

    # Imported here: Django must not be loaded with settings that were refused.
    if sys.argv[1:2] == ["runmq"]:
        _supervise()
        return Exit.OK
    from django.core.management import execute_from_command_line

    from apps.core import origins

    command = " ".join(["manage.py", *sys.argv[1:2]])
    origins.current.set(origins.Origin(door=origins.Door.COMMAND, agent=command))
    execute_from_command_line(sys.argv)
    return Exit.OK


def _supervise() -> None:
    """Run the supervisor without the applications, which it starts and never asks anything."""
    from logging.config import dictConfig

    from django.conf import settings

    from apps.bridge.management.commands.runmq import Command

    dictConfig(settings.LOGGING)
    Command().run_from_argv(sys.argv)


if __name__ == "__main__":
    sys.exit(main())
