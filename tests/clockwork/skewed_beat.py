"""Run `celery -A mqweb beat` on a wall clock that is wrong by the seconds a file says.

Everything of Celery asks one method for the time; the file is read each time, so that a test can
set the clock while beat runs.
"""

import sys
from datetime import datetime, timedelta
from pathlib import Path

from celery import Celery
from celery.__main__ import main

_offset_file = Path(sys.argv[1])
_true_now = Celery.now


def _wrong_now(self: Celery) -> datetime:
    offset_s = float(_offset_file.read_text())
    now: datetime = _true_now(self) + timedelta(seconds=offset_s)
    return now


if __name__ == "__main__":
    Celery.now = _wrong_now
    sys.argv = ["celery", "-A", "mqweb", "beat"]
    main()
