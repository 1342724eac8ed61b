"""Rows of dead letters, of jobs that send them again, and of what went wrong in these."""

from apps.deadletters.models.jobs import JobState, ResendJob, ResendTrouble
from apps.deadletters.models.letters import DeadLetter, State

__all__ = ["DeadLetter", "JobState", "ResendJob", "ResendTrouble", "State"]
