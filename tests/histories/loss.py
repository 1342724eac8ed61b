"""INV-1: what was acknowledged to a producer is done by every group that wants it.

A missing message before others that came (prefix) or between them (middle) is lost; behind all of
them (postfix) it may still be on its way, until the group was seen to have done everything.
"""

from collections import defaultdict

from tests.histories import acts, givenup
from tests.histories.deliveries import Subscribed, deliveries_of, subscriptions_of
from tests.histories.filtering import Matches, has_wanted_tag
from tests.histories.history import History
from tests.histories.liveness import drained_ns
from tests.histories.sends import Place, Sends, Sent, is_acked, sends_of
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-1 loss"


def check(history: History, *, matches: Matches = has_wanted_tag) -> Verdict:
    """Check each group against all its topics' acknowledged messages, by producer and queue."""
    findings = Findings(NAME)
    sends = history.once(sends_of)
    done: defaultdict[str, set[str]] = defaultdict(set)
    seen: defaultdict[str, set[str]] = defaultdict(set)
    for delivery in history.once(deliveries_of):
        seen[delivery.group].add(delivery.id)
        if delivery.is_done:
            done[delivery.group].add(delivery.id)
    dead = _dead(history, sends)
    pending = 0
    for (group, topic), versions in history.once(subscriptions_of).items():
        is_drained = drained_ns(history, group) is not None
        for sequence in _sequences(sends, topic, versions, matches):
            settled = done[group] | dead[group]
            pending += _check_sequence(group, sequence, settled, is_drained, findings)
    findings.counts["acked"] = sum(map(is_acked, sends.by_id.values()))
    findings.counts["unknown sends that came"] = len(
        {
            sent.id
            for sent in sends.by_id.values()
            if not is_acked(sent) and any(sent.id in ids for ids in seen.values())
        }
    )
    reason = f"{pending} messages may still be on their way" if pending else ""
    return findings.verdict(unknown=reason if findings.counts["acked"] else "nothing was sent")


def _sequences(
    sends: Sends, topic: str, versions: list[Subscribed], matches: Matches
) -> list[list[Sent]]:
    """Return each producer's acknowledged, wanted messages, by queue and offset."""
    found: defaultdict[tuple[str, Place], list[Sent]] = defaultdict(list)
    for producer, sequence in sends.by_producer.items():
        for sent in sequence:
            is_wanted = all(matches(sent, version) for version in versions)
            if is_wanted and sent.place is not None and sent.place.topic == topic:
                found[producer, sent.place].append(sent)
    return [sorted(sequence, key=lambda sent: sent.offset or 0) for sequence in found.values()]


def _check_sequence(
    group: str, sequence: list[Sent], settled: set[str], is_drained: bool, findings: Findings
) -> int:
    """Judge one producer's messages of one queue; return how many are undecided."""
    came = [index for index, sent in enumerate(sequence) if sent.id in settled]
    undecided = 0
    for index, sent in enumerate(sequence):
        if sent.id in settled:
            continue
        if not came or index > came[-1]:
            kind = "postfix"
        else:
            kind = "prefix" if index < came[0] else "middle"
        if kind == "postfix" and not is_drained:
            undecided += 1
            continue
        findings.counts[f"lost ({kind})"] += 1
        findings.violation(f"{group} never did ({kind}):", sent)
    return undecided


def _dead(history: History, sends: Sends) -> defaultdict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    notices = givenup.dead(history)
    for (group, _), ids in history.once(acts.ids_passed_over).items():
        found[group] |= ids
    if not notices:
        return found
    at = {(sent.place, sent.offset): sent.id for sent in sends.by_id.values() if sent.place}
    for notice in notices:
        values = notice.values
        id_ = at.get((Place(values["topic"], values["queue"]), values["offset"]))
        if id_ is not None:
            found[values["group"]].add(id_)
    return found
