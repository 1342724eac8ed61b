"""What an environment variable is, and what is raised for one that cannot be served. Reads none."""

from dataclasses import dataclass


class Refused(ValueError):
    """A variable has a value that mqweb does not start with; the text says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable: its name, what holds when it is unset, and what it means."""

    name: str
    default: str
    meaning: str
