"""One JSON object a line. Knows log records; bodies and tokens are never given to it."""

import json
import logging
from datetime import UTC, datetime

from apps.core import requestids

# What every record has; anything else was passed as `extra` and belongs on the line.
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Write time, level, logger, event and the event's own fields.

    JSON escapes control characters, so that a hostile name can neither forge a line nor
    send escape sequences to a terminal.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return one line without a line break in it."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        if request_id := requestids.current.get():
            line["request_id"] = request_id
        line.update(
            (name, value)
            for name, value in record.__dict__.items()
            if name not in _STANDARD and name not in ("request", "server_time")
        )
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
