"""What every page says while the clockwork does not run: since when, and what to do. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

from apps.clockwork.selectors import Clockwork
from apps.core import amounts
from apps.core.pagination import rfc3339
from apps.core.phrases import Text, phrase


class Banner(TypedDict):
    """A banner's texts; an empty one is not shown.

    Only `age` changes while the banner stands, so that a screen reader does not repeat the rest.
    """

    title: Text
    since: Text
    age: Text
    text: Text
    advice: Text
    commands: str


def standing_still(found: Clockwork, now: datetime, *, worker_processes: int) -> Banner:
    """Say that no step begins; `worker_processes` is how many the server was told to run."""
    return {
        "title": phrase("The clockwork stands still"),
        **_since(found.last_step_at, now, never=phrase("and has never begun a task")),
        "text": _text(found.missing),
        "advice": _advice(found.missing, worker_processes),
        "commands": "\n".join(f"celery -A mqweb {kind}" for kind in found.missing),
    }


def not_known(found: Clockwork | None, now: datetime | None) -> Banner:
    """Say that what is known of the clockwork is old; None where nothing was ever known."""
    return {
        "title": phrase("The clockwork is out of sight"),
        **_since(found.now if found else None, now, never=phrase("since this server started")),
        "text": phrase("Its rows cannot be read from the database, without which no task is done."),
        "advice": phrase(
            "Look at the database, and at the broker's log for database_away and "
            "background_step_failed."
        ),
        "commands": "",
    }


class _Since(TypedDict):
    since: Text
    age: Text


def _since(moment: datetime | None, now: datetime | None, *, never: Text) -> _Since:
    if moment is None or now is None:
        return {"since": never, "age": ""}
    age_s = max(0, int((now - moment).total_seconds()))
    # The page puts it by the clock of its viewer: `times` of mq.py and format.js.
    since = phrase("since %(at)s", at=rfc3339(moment))
    return {"since": since, "age": amounts.ago(age_s)}


def _text(missing: Sequence[str]) -> Text:
    if not missing:
        return phrase(
            "Beat and worker are there, and no step begins. Tasks are not done meanwhile."
        )
    if len(missing) == 1:
        return phrase("No %(part)s is there. Tasks are not done meanwhile.", part=missing[0])
    return phrase(
        "No %(part)s and no %(other)s is there. Tasks are not done meanwhile.",
        part=missing[0],
        other=missing[1],
    )


def _advice(missing: Sequence[str], worker_processes: int) -> Text:
    if not missing:
        return phrase("Look at the log of the worker: it says what its tasks wait for.")
    if worker_processes == 0:
        return phrase(
            "This server was told to run neither (MQWEB_WORKER_PROCESSES=0). Start it again with "
            "1 or more, or run beside it, with the same settings:"
        )
    return phrase(
        "manage.py runmq starts again what has ended, and its log says why it ended (part_ended). "
        "Where they run apart, start, with the settings of this server:"
    )
