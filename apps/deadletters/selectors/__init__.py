"""Dead letters and their jobs as read: rows from the database, bodies from the engine's log."""

from apps.deadletters.selectors.bodies import Body, bodies, body_of
from apps.deadletters.selectors.jobs import job, jobs, troubles
from apps.deadletters.selectors.letters import (
    GroupLetters,
    groups_with_letters,
    letter,
    origins,
    reasons,
)
from apps.deadletters.selectors.retries import Retries, Waiting, retries, waiting_letters

__all__ = [
    "Body",
    "GroupLetters",
    "Retries",
    "Waiting",
    "bodies",
    "body_of",
    "groups_with_letters",
    "job",
    "jobs",
    "letter",
    "origins",
    "reasons",
    "retries",
    "troubles",
    "waiting_letters",
]
