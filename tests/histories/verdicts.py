"""What a checker says: valid, invalid with evidence, or unknown with a reason."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

# A broken run breaks a promise thousands of times; the first few tell the story.
_EVIDENCE_MAX = 10


class Validity(StrEnum):
    """The three answers."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One checker's answer. `counts` are figures worth publishing, whatever the answer is.

    `evidence` are the first violations, `violation_count` says how many there were.
    """

    name: str
    validity: Validity
    evidence: tuple[str, ...] = ()
    violation_count: int = 0
    reason: str = ""
    counts: Mapping[str, int | float] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return it as a few lines for people."""
        counts = ", ".join(f"{name} {value:g}" for name, value in sorted(self.counts.items()))
        head = (
            f"{self.validity:8} {self.name}: {counts}"
            if counts
            else f"{self.validity:8} {self.name}"
        )
        if self.violation_count:
            head += f"; {self.violation_count} violations"
        lines = [head, *([f"         {self.reason}"] if self.reason else [])]
        return "\n".join([*lines, *(f"         - {line}" for line in self.evidence)])


class Findings:
    """What a checker collects on its way through a history."""

    def __init__(self, name: str) -> None:
        """Begin without a violation."""
        self._name = name
        self._evidence: list[str] = []
        self._violation_count = 0
        self.counts: Counter[str] = Counter()

    def violation(self, *parts: object) -> None:
        """Note that the promise was broken; parts are written only while there is room."""
        self._violation_count += 1
        if len(self._evidence) < _EVIDENCE_MAX:
            self._evidence.append(" ".join(str(part) for part in parts))

    def verdict(
        self, *, unknown: str = "", counts: Mapping[str, int | float] | None = None
    ) -> Verdict:
        """Return the answer: INVALID with a violation, else UNKNOWN with a reason, else VALID."""
        validity = Validity.UNKNOWN if unknown else Validity.VALID
        if self._violation_count:
            validity = Validity.INVALID
        return Verdict(
            name=self._name,
            validity=validity,
            evidence=tuple(self._evidence),
            violation_count=self._violation_count,
            reason=unknown if validity is Validity.UNKNOWN else "",
            counts={**self.counts, **(counts or {})},
        )


def are_valid(verdicts: Iterable[Verdict]) -> bool:
    """Say whether every verdict is VALID: what is unknown has not been shown."""
    return all(verdict.validity is Validity.VALID for verdict in verdicts)
