"""What jobs, runs, streams and files are called on pages. Pure: names to phrases.

The names themselves are what programs know: they stay as they are in addresses and the API.
"""

from collections.abc import Mapping
from typing import Final

from apps.core.phrases import Text, phrase, phrase_in
from apps.pipelines.catalogue import Job
from apps.pipelines.models import RunState, Trigger

NEVER_RUN: Final = phrase_in("job", "never run")
ALL_TOPICS: Final = phrase_in("topics", "all")

_STATES: Final[Mapping[str, Text]] = {
    RunState.QUEUED: phrase_in("run", "queued"),
    RunState.RUNNING: phrase_in("run", "running"),
    RunState.DONE: phrase_in("run", "done"),
    RunState.FAILED: phrase_in("run", "failed"),
    RunState.CANCELLED: phrase_in("run", "cancelled"),
    RunState.INTERRUPTED: phrase_in("run", "interrupted"),
}
_TRIGGERS: Final[Mapping[str, Text]] = {
    Trigger.SCHEDULE: phrase_in("who asked for a run", "schedule"),
    Trigger.PERSON: phrase_in("who asked for a run", "person"),
    Trigger.COMMAND: phrase_in("who asked for a run", "command"),
    Trigger.BACKFILL: phrase_in("who asked for a run", "backfill"),
}
STREAMS: Final[Mapping[str, Text]] = {
    "not wanted": phrase_in("stream", "not wanted"),
    "failed": phrase_in("stream", "failed"),
    "waiting": phrase_in("stream", "waiting"),
    "running": phrase_in("stream", "running"),
    "silent": phrase_in("stream", "silent"),
}
FILES: Final[Mapping[str, Text]] = {
    "deleted": phrase_in("file", "deleted"),
    "replaced": phrase_in("file", "replaced"),
    "in use": phrase_in("file", "in use"),
}
# What a run says that waits for its window to be copied.
_STAGES: Final[Mapping[str, Text]] = {
    "waiting for messages to be copied": phrase("waiting for messages to be copied"),
}
_MEANINGS: Final[Mapping[str, Text]] = {
    "ingest": phrase("copies new messages and traces from the log to bronze"),
    "archive": phrase("copies log segments that are about to expire, and lets retention have them"),
    "loss": phrase("finds messages that producers numbered and nobody stored"),
    "duplicates": phrase("finds what was stored twice or worked on twice, and why"),
    "ordering": phrase("finds where the order of a key or of a queue did not hold"),
    "skew": phrase("finds uneven queues and hot keys"),
    "rates": phrase("counts messages a minute, sent and worked on"),
    "backlog": phrase("says why a group is behind and when it will have caught up"),
    "delays": phrase("measures how punctual delayed messages were"),
    "retries": phrase("says how many attempts messages took and why they failed"),
    "rebalances": phrase("finds storms of rebalances and queues without an owner"),
    "quality": phrase("looks whether the tables keep their rules"),
    "compact": phrase("makes few large files of many small ones, and removes what nobody reads"),
}


def state(name: str) -> Text:
    """Return what a state of a run is called."""
    return _STATES.get(name, name)


def trigger(name: str) -> Text:
    """Return what asked for a run."""
    return _TRIGGERS.get(name, name)


def stage(name: str) -> Text:
    """Return what a run does at the moment; what only its job knows is returned as it is."""
    return _STAGES.get(name, name)


def meaning(job: Job) -> Text:
    """Return what a job does."""
    return _MEANINGS.get(job.name, job.meaning)
