"""What alerts can be about: the kinds, their units, and what a value means. Pure.

Every kind has one number a subject, and fires from its threshold on. The subject is a group, or
the broker as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.alerts import words
from apps.core.phrases import Text, phrase

# Dead letters are counted over so long.
GROWTH_MS = 600_000
# Samples come every 5 s; older than this they say nothing of now.
FRESH_MS = 30_000
# The subject of kinds that are not about a group.
BROKER = "broker"

THRESHOLD_MAX = 1e15


class Kind(StrEnum):
    """What a rule looks at."""

    LAG = "lag"
    OLDEST_AGE = "oldest_age"
    BLOCKED_QUEUE = "blocked_queue"
    DEAD_LETTERS = "dead_letters"
    LOCK_REFUSALS = "lock_refusals"
    SILENT_GROUP = "silent_group"
    DISK = "disk"
    NO_SAMPLES = "no_samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """A kind in words: its name, what the number counts, and its unit."""

    name: str | Promise
    meaning: str | Promise
    unit: str
    by_group: bool = True

    @property
    def unit_said(self) -> Text:
        """What the unit is called on pages."""
        return words.unit(self.unit)


KINDS: Mapping[Kind, About] = MappingProxyType(
    {
        Kind.LAG: About(
            name=_("Lag"),
            meaning=_("Messages not yet done for a group, over all its topics."),
            unit="messages",
        ),
        Kind.OLDEST_AGE: About(
            name=_("Oldest age"),
            meaning=_("Age of the oldest message a group has not done."),
            unit="s",
        ),
        Kind.BLOCKED_QUEUE: About(
            name=_("Blocked queue"),
            meaning=_("Queues of a group that do not get on."),
            unit="queues",
        ),
        Kind.DEAD_LETTERS: About(
            name=_("Dead letters"),
            meaning=_("Messages of a group that died in the last 10 minutes."),
            unit="letters",
        ),
        Kind.LOCK_REFUSALS: About(
            name=_("Lock refusals"),
            meaning=_("Queue locks refused to members of a group in a minute."),
            unit="refusals/min",
        ),
        Kind.SILENT_GROUP: About(
            name=_("Silent group"),
            meaning=_("Messages that wait for a group of which no member is there."),
            unit="messages",
        ),
        Kind.DISK: About(
            name=_("Disk"),
            meaning=_("Share of the broker's disk that is used."),
            unit="%",
            by_group=False,
        ),
        Kind.NO_SAMPLES: About(
            name=_("No samples"),
            meaning=_("Time since the broker was last sampled: it, or the sampler, is silent."),
            unit="s",
            by_group=False,
        ),
    }
)


class Severity(StrEnum):
    """How much an alert matters, the least first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


def severities_from(lowest: str) -> list[str]:
    """Return a severity and those that matter more."""
    found = [severity.value for severity in Severity]
    return found[found.index(lowest) :]


class Scope(StrEnum):
    """Which subjects are meant."""

    ANY = "any"
    PREFIX = "prefix"
    NAME = "name"


def is_meant(subject: str, scope: str, text: str) -> bool:
    """Say whether a scope covers a subject; any other word than a scope covers none."""
    match scope:
        case Scope.ANY:
            return True
        case Scope.PREFIX:
            return subject.startswith(text)
        case Scope.NAME:
            return subject == text
    return False


def written(value: float | None, unit: str) -> Text:
    """Return a value with its unit; a dash where it is not known."""
    if value is None:
        return "\N{EN DASH}"
    number = f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:,.1f}"
    return phrase("%(number)s %(unit)s", number=number, unit=words.unit(unit))
