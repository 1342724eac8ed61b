"""Says in the database that a process of the clockwork is there. Knows one row and a thread."""

import logging
import threading
from collections.abc import Callable

from django.db import InterfaceError, OperationalError, close_old_connections, models
from django.db.models.functions import Now

from apps.clockwork.models import Part

SAY_EVERY_S = 5.0

_log = logging.getLogger("mqweb.clockwork")


class Presence:
    """A row that is renewed every few seconds from a thread of its own, and removed at the end."""

    def __init__(self, kind: Part.Kind, name: str, *, every_s: float = SAY_EVERY_S) -> None:
        """Say nothing yet."""
        self._kind = kind
        self._name = name
        self._every_s = every_s
        self._ended = threading.Event()
        self._is_database_away = False
        self._thread = threading.Thread(target=self._run, name="clockwork-presence", daemon=True)

    def start(self) -> None:
        """Say it now, and again until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Remove the row; wait a moment for it, not for a database that is away."""
        self._ended.set()
        self._thread.join(timeout=self._every_s)

    def _run(self) -> None:
        self._tolerantly(self._say_started)
        while not self._ended.wait(self._every_s):
            self._tolerantly(self._say)
        self._tolerantly(self._remove)

    def _say_started(self) -> None:
        Part.objects.update_or_create(
            kind=self._kind, name=self._name, defaults={"started_at": Now(), "seen_at": Now()}
        )

    def _say(self) -> None:
        if not self._rows().update(seen_at=Now()):
            self._say_started()

    def _remove(self) -> None:
        self._rows().delete()

    def _rows(self) -> models.QuerySet[Part]:
        return Part.objects.filter(kind=self._kind, name=self._name)

    def _tolerantly(self, work: Callable[[], object]) -> None:
        try:
            work()
        except (OperationalError, InterfaceError) as error:
            if not self._is_database_away:
                _log.warning("presence_without_database", extra={"detail": str(error)})
            self._is_database_away = True
        else:
            self._is_database_away = False
        finally:
            # What is too old or was cut off; a good one is kept where settings say so.
            close_old_connections()
