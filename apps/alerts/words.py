"""Fixed words of alerts for people. Pure: what rows and facts hold to phrases.

Rows and documents for programs keep the words they have; what is not here is shown as it is.
"""

from collections.abc import Mapping
from typing import Final

from apps.core.phrases import Text, phrase, phrase_in

_UNITS: Final[Mapping[str, Text]] = {
    "messages": phrase_in("unit", "messages"),
    "queues": phrase_in("unit", "queues"),
    "letters": phrase_in("unit", "letters"),
    "refusals/min": phrase_in("unit", "refusals/min"),
    "s": phrase_in("unit", "s"),
}
_RESOLUTIONS: Final[Mapping[str, Text]] = {
    "the rule is gone or disabled": phrase("the rule is gone or disabled"),
    "the rule is about others": phrase("the rule is about others"),
    "it is not there any more": phrase("it is not there any more"),
    "below the threshold": phrase("below the threshold"),
}
_SEVERITIES: Final[Mapping[str, Text]] = {
    "info": phrase_in("severity", "info"),
    "warning": phrase_in("severity", "warning"),
    "critical": phrase_in("severity", "critical"),
}
_EVENTS: Final[Mapping[str, Text]] = {
    "firing": phrase_in("head of a message", "FIRING"),
    "resolved": phrase_in("head of a message", "RESOLVED"),
    "test": phrase_in("head of a message", "TEST"),
}
_RULES: Final[Mapping[str, Text]] = {
    "Broker or sampler is silent": phrase_in("name of a rule", "Broker or sampler is silent"),
    "Disk is filling up": phrase_in("name of a rule", "Disk is filling up"),
    "Disk is nearly full": phrase_in("name of a rule", "Disk is nearly full"),
    "Queue is blocked": phrase_in("name of a rule", "Queue is blocked"),
    "Group is far behind": phrase_in("name of a rule", "Group is far behind"),
    "Messages wait too long": phrase_in("name of a rule", "Messages wait too long"),
    "Nobody reads what waits": phrase_in("name of a rule", "Nobody reads what waits"),
    "Messages die": phrase_in("name of a rule", "Messages die"),
    "Locks are refused": phrase_in("name of a rule", "Locks are refused"),
}


def unit(name: str) -> Text:
    """Return what a unit is called beside a number."""
    return _UNITS.get(name, name)


def rule_name(name: str) -> Text:
    """Return what a rule is called: those to begin with in words, others as they were named."""
    return _RULES.get(name, name)


def resolution(said: str) -> Text:
    """Return why an alert is over."""
    return _RESOLUTIONS.get(said, said)


def severity(name: str) -> Text:
    """Return how much an alert matters."""
    return _SEVERITIES.get(name, name)


def event(name: str) -> Text:
    """Return what a message is about, as its first word; empty for nothing we know."""
    return _EVENTS.get(name, "")


def summary(facts: Mapping[str, object], *, value: Text, threshold: Text) -> Text:
    """Return what happened to whom; that of facts from before there were languages as it is."""
    if facts.get("event") == "test" and "channel" in facts:
        return phrase(
            "A test of the channel %(channel)s, asked for by %(by)s",
            channel=str(facts["channel"]),
            by=str(facts.get("by", "")),
        )
    if "unit" not in facts:
        return str(facts.get("summary", ""))
    return phrase(
        "%(rule)s: %(subject)s has %(value)s, from %(threshold)s on it fires",
        rule=rule_name(str(facts["rule"])),
        subject=str(facts["subject"]),
        value=value,
        threshold=threshold,
    )
