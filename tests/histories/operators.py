"""INV-18: what operators do to a queue of a group is what comes of it, no more and no less.

    skip      its message is not handed out again; the answer names a head behind it
    park      the same, and it is a dead letter of the group once, with its place and its reason
    suspend   nothing is handed out until somebody asks for the queue to be resumed
    reset     the group goes on at the offset named: what lies from there on comes again, what lies
              before is passed over; its undo goes back to where the group was

Clients that had read something before they could know may still work on it for a while.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

from tests.histories import acts, givenup
from tests.histories.acts import Act
from tests.histories.deliveries import (
    Delivery,
    Queue,
    by_queue,
    deliveries_of,
    existing_offsets,
    ordered_topics,
)
from tests.histories.events import Verb
from tests.histories.history import SECOND_NS, History
from tests.histories.liveness import drained_ns
from tests.histories.sends import Place, sends_of
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-18 operators"
Given = Mapping[Queue, list[Delivery]]


def check(history: History, *, settle_s: float = 2.0) -> Verdict:
    """Check every act against what was handed out, the dead letters and the acts around it.

    `settle_s` is how long after its answer clients may still begin with what they read before it.
    """
    findings = Findings(NAME)
    given = by_queue(history.once(deliveries_of))
    settle_ns = int(settle_s * SECOND_NS)
    for queue, done in history.once(acts.by_queue).items():
        _check_settled(done, given.get(queue, []), settle_ns, findings)
        _check_suspended(done, given.get(queue, []), settle_ns, findings)
        _check_passed_over(done, given.get(queue, []), settle_ns, findings)
    undecided = _check_again(history, given, findings)
    undecided += _check_letters(history, findings)
    _check_undone(history, findings)
    for act in history.once(acts.acts_of):
        findings.counts[f"{act.verb} {'done' if act.is_sure else 'unknown'}"] += 1
    reason = f"{undecided} acts cannot be judged" if undecided else ""
    return findings.verdict(unknown=reason if findings.counts else "no operator did anything")


def _goes_back_to(done: list[Act], offset: int, since_ns: int, before_ns: int) -> bool:
    """Say whether a reset between two moments may have an offset come again."""
    return any(
        act.verb is Verb.MOVE
        and act.offset <= offset
        and act.start_ns < before_ns
        and act.end_ns > since_ns
        for act in done
    )


def _check_settled(
    done: list[Act], given: list[Delivery], settle_ns: int, findings: Findings
) -> None:
    """Check that a skipped or parked message does not come again."""
    for act in done:
        if act.verb not in (Verb.SKIP, Verb.PARK) or not act.is_sure:
            continue
        if act.told["head"] <= act.offset:
            findings.violation("settled, and the head is still", act.told["head"], "in", act)
        for delivery in given:
            is_late = delivery.start_ns > act.end_ns + settle_ns
            if (
                delivery.offset == act.offset
                and is_late
                and not _goes_back_to(done, act.offset, act.end_ns, delivery.start_ns)
            ):
                findings.violation("came though it was settled:", delivery, "after", act)


def _check_suspended(
    done: list[Act], given: list[Delivery], settle_ns: int, findings: Findings
) -> None:
    """Check that nothing is handed out from a suspension's answer until a resume is asked for."""
    for act in done:
        if act.verb is not Verb.SUSPEND or not act.is_sure:
            continue
        until_ns = min(
            (a.start_ns for a in done if a.verb is Verb.RESUME and a.end_ns > act.start_ns),
            default=1 << 63,
        )
        late = [d for d in given if act.end_ns + settle_ns < d.start_ns < until_ns]
        for delivery in late:
            findings.violation("handed out though suspended:", delivery, "after", act)


def _check_passed_over(
    done: list[Act], given: list[Delivery], settle_ns: int, findings: Findings
) -> None:
    """Check that what a reset leaves behind is not handed out, until one goes back."""
    for act in done:
        if act.verb is not Verb.MOVE or not act.is_sure:
            continue
        for delivery in given:
            is_late = delivery.start_ns > act.end_ns + settle_ns
            if (
                is_late
                and delivery.offset < act.offset
                and not _goes_back_to(done, delivery.offset, act.end_ns, delivery.start_ns)
            ):
                findings.violation("came though a reset passed it over:", delivery, "after", act)


def _check_again(history: History, given: Given, findings: Findings) -> int:
    """Check that all that a reset goes back over comes again; return how many may yet come."""
    undecided = 0
    existing = existing_offsets(history, history.once(sends_of), given)
    # Their copies are in the retry topic, whatever becomes of the queue.
    sent_back = {
        ((n.values["group"], Place(n.values["topic"], n.values["queue"])), n.values["offset"])
        for n in givenup.dead(history)
    }
    for queue, done in history.once(acts.by_queue).items():
        moves = [act for act in done if act.verb is Verb.MOVE]
        for act in moves:
            if not act.is_sure or act.told["before"] <= act.offset or queue not in existing:
                continue
            findings.counts["went back"] += 1
            since = {d.offset for d in given[queue] if d.start_ns >= act.start_ns}
            missing = [
                offset
                for offset in existing[queue].offsets
                if act.offset <= offset < act.told["before"]
                and offset not in since
                and (queue, offset) not in sent_back
                and not _is_excused(done, act, offset)
            ]
            findings.counts["came again"] += act.told["before"] - act.offset - len(missing)
            if missing and drained_ns(history, act.group, since_ns=act.end_ns) is None:
                undecided += 1
            elif missing:
                findings.violation(f"{len(missing)} did not come again:", missing[:3], "after", act)
    return undecided


def _is_excused(done: list[Act], act: Act, offset: int) -> bool:
    """Say whether a later act settles an offset, or lets the group go on behind it."""
    return any(
        later.start_ns > act.start_ns
        and (
            (
                later.verb is Verb.MOVE
                and later.offset > offset
                and (not later.is_sure or later.told["before"] <= offset)
            )
            or (later.verb in (Verb.SKIP, Verb.PARK) and later.offset == offset)
        )
        for later in done
    )


def _check_letters(history: History, findings: Findings) -> int:
    """Check that letters of groups in order are what was parked; return how many are not known."""
    ordered = {group for group, _ in ordered_topics(history)}
    parked: defaultdict[str, list[Act]] = defaultdict(list)
    for act in acts.of(history, Verb.PARK):
        parked[act.group].append(act)
    undecided = 0
    readings = {
        group: [
            one for one in history.of(Verb.LETTERS) if one.is_ok and one.asked["group"] == group
        ]
        for group in parked.keys() | ordered
    }
    for group, found in readings.items():
        if not found:
            undecided += len(parked[group])
            continue
        last = found[-1]
        letters = Counter((topic, queue, at) for *_, topic, queue, at in last.told["letters"])
        reasons = {
            (topic, queue, at): last.told["reasons"][str(number)]
            for number, *_, topic, queue, at in last.told["letters"]
        }
        expected = {(*act.place, act.offset): act for act in parked[group]}
        for place, act in expected.items():
            _check_letter(act, letters[place], reasons.get(place), last.start_ns, findings)
        for place in letters.keys() - expected.keys():
            findings.violation(f"{group} reads in order and nobody parked its letter of", place)
    return undecided


def _check_letter(
    act: Act, count: int, reason: str | None, read_ns: int, findings: Findings
) -> None:
    if count > 1:
        findings.violation(f"parked, and {count} dead letters:", act)
    if count == 0 and act.end_ns < read_ns:
        findings.violation("parked, and no dead letter:", act)
    if count and act.asked["reason"] not in (reason or ""):
        findings.violation(f"its letter gives the reason {reason!r}:", act)
    findings.counts["letters of parked"] += count


def _check_undone(history: History, findings: Findings) -> None:
    """Check that an undo sets what was before, and that a reset says where it leaves the group."""
    by_name = {act.name: act for act in history.once(acts.acts_of)}
    for act in acts.of(history, Verb.MOVE):
        if not act.is_sure:
            continue
        if act.told["after"] != act.offset:
            findings.violation(f"left the group at {act.told['after']}:", act)
        undone = by_name.get(act.asked.get("undoes", ""))
        if undone is not None and undone.is_sure:
            findings.counts["undone"] += 1
            if act.told["after"] != undone.told["before"]:
                findings.violation(f"undone to {act.told['after']}:", act, "of", undone)
