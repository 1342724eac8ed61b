"""Rows that rules look at, and rules, channels and silences to look with."""

from typing import Any

from apps.alerts import services
from apps.alerts.models import AlertRule, Channel, Silence
from apps.alerts.services import ChannelTerms, RuleTerms, SilenceTerms
from apps.core.moments import moment
from apps.metrics.models import GroupSummary, StoreSample
from tests.web.metrics.fakes import START_MS, count, store_sample

HOUR_MS = 3_600_000
HOOK = "https://hooks.example.com/secret-part"


class Slots:
    """Samples of one moment after the other, with the groups the test wants."""

    def __init__(self) -> None:
        """Begin at the first slot, with nothing sampled."""
        self.now_ms = START_MS

    def sample(self, **groups: Any) -> int:
        """Write a sample of 5 s later with groups by name: a lag, or columns; return when."""
        self.now_ms += 5_000
        self.sample_here(**groups)
        return self.now_ms

    def sample_here(self, *, disk_percent: int | None = 50, **groups: Any) -> None:
        """Write a sample of this moment."""
        row: StoreSample = store_sample(self.now_ms)
        for column, value in count("disk_percent", disk_percent).items():
            setattr(row, column, value)
        row.save()
        GroupSummary.objects.all().delete()
        for name, columns in groups.items():
            group(name, at_ms=self.now_ms, **_columns(columns))

    def pause(self, seconds: int) -> int:
        """Let time go by in which nobody samples; return when that is."""
        self.now_ms += seconds * 1_000
        return self.now_ms


def _columns(columns: Any) -> dict[str, Any]:
    return columns if isinstance(columns, dict) else {"lag": columns}


def group(name: str, *, at_ms: int, **columns: Any) -> GroupSummary:
    """Save the summary of a group of one member that does nothing wrong."""
    given = {"lag": 0, "oldest_age_ms": 0, "blocked": 0, "members": 1, "refusal_rate": 0.0}
    return GroupSummary.objects.create(
        name=name, sampled_at=moment(at_ms), looked_at=moment(at_ms), **{**given, **columns}
    )


def rule(**changes: Any) -> AlertRule:
    """Make a rule: a lag of 100 for 10 s."""
    given = {"name": "behind", "kind": "lag", "threshold": 100.0, "pending_s": 10}
    return services.create_rule(terms=RuleTerms(**{**given, **changes}), by="ada", now_ms=START_MS)


def channel(**changes: Any) -> Channel:
    """Make a channel that posts JSON."""
    given = {"name": "ops", "kind": "webhook", "url": HOOK}
    terms = ChannelTerms(**{**given, **changes})
    return services.create_channel(terms=terms, by="ada", now_ms=START_MS)


def silence(*, from_ms: int, to_ms: int, **changes: Any) -> Silence:
    """Silence every alert for a time."""
    terms = SilenceTerms(starts_ms=from_ms, ends_ms=to_ms, **{"reason": "we move house", **changes})
    return services.create_silence(terms=terms, by="ada", now_ms=min(from_ms, to_ms - 1))
