"""What a walk over a store can find, by kind. Knows no files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from apps.engine.verify.store import Store


class Kind(StrEnum):
    """What a finding is about; each has an exit code of its own."""

    FILES = "files"
    """A small file that the store cannot be opened without, or the quarantine's manifest."""
    LOG = "log"
    QUEUES = "queues"
    INDEX = "index"
    TIMERS = "timers"
    COMPACTED = "compacted"
    STATE = "state"
    CATALOG = "catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be. `is_known` is damage that is in quarantine already."""

    kind: Kind
    place: str
    detail: str
    is_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A walk over one part of a store, read-only. `run` yields what it finds, as it goes."""

    name: str
    run: Callable[[Store], Iterator[Finding]]
