"""INV-10: what a group has committed only grows, and never passes what it has not done."""

from collections import defaultdict
from typing import NamedTuple

from tests.histories import acts, givenup
from tests.histories.commits import Committed
from tests.histories.deliveries import Queue, by_queue, deliveries_of, existing_offsets
from tests.histories.events import Verb
from tests.histories.faults import Moments
from tests.histories.history import History
from tests.histories.prefix import DonePrefix
from tests.histories.sends import Place, sends_of
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-10 progress"


class _Moment(NamedTuple):
    """What is done at a moment, or what is claimed to be done: all below `offset`."""

    at_ns: int
    rank: int
    kind: str
    offset: int
    who: object


def check(history: History) -> Verdict:
    """Check every commit and every reading of progress against what listeners had done."""
    findings = Findings(NAME)
    deliveries = by_queue(history.once(deliveries_of))
    offsets = existing_offsets(history, history.once(sends_of), deliveries)
    moments = _moments(history)
    for queue, given in deliveries.items():
        done = [
            _Moment(delivery.end_ns, 0, "done", delivery.offset, delivery)
            for delivery in given
            if delivery.is_done
        ]
        _check_queue(queue, DonePrefix(*offsets[queue]), done + moments.pop(queue, []), findings)
    for queue, claims in moments.items():
        # Nothing of these was ever delivered, so nothing may be done.
        for claim in claims:
            if claim.kind in ("commit", "reading") and claim.offset > 0:
                findings.violation(_of(queue), claim.who, "but nothing was delivered")
    _check_readings(history, findings)
    is_known = findings.counts["commits"] + findings.counts["readings"] > 0
    return findings.verdict(unknown="" if is_known else "nothing was committed or read")


def _moments(history: History) -> dict[Queue, list[_Moment]]:
    found: defaultdict[Queue, list[_Moment]] = defaultdict(list)
    for operation in history.of(Verb.COMMIT):
        if operation.is_ok:
            for topic, queue, offset, _ in operation.asked["offsets"]:
                # What was done after the request left is not what the request is about.
                moment = _Moment(operation.start_ns, 2, "commit", offset, operation)
                found[operation.asked["group"], Place(topic, queue)].append(moment)
    for operation in history.of(Verb.PROGRESS):
        if operation.is_ok:
            for topic, queue, committed, _ in operation.told["offsets"]:
                moment = _Moment(operation.end_ns, 2, "reading", committed, operation)
                found[operation.asked["group"], Place(topic, queue)].append(moment)
    for kind, notices in (("dead", givenup.dead(history)), ("reset", history.noticed(Verb.RESET))):
        for notice in notices:
            values = notice.values
            queue_of_group = (values["group"], Place(values["topic"], values["queue"]))
            moment = _Moment(notice.at_ns, 1, kind, values["offset"], notice)
            found[queue_of_group].append(moment)
    for act in acts.of(history, Verb.SKIP, Verb.PARK):
        # Going back over one forgets it, so it is done and not dead.
        found[act.queue].append(_Moment(act.start_ns, 1, "done", act.offset, act))
    for act in acts.of(history, Verb.MOVE):
        # What is read while it is done may be of before it or of after it.
        goes_back = act.is_sure and act.offset < act.told["before"]
        at_ns = act.end_ns if goes_back else act.start_ns
        found[act.queue].append(_Moment(at_ns, 1, "move", act.offset, act))
    return found


def _check_queue(
    queue: Queue, prefix: DonePrefix, moments: list[_Moment], findings: Findings
) -> None:
    dead: list[int] = []
    for moment in sorted(moments, key=lambda moment: moment[:2]):
        match moment.kind:
            case "done":
                prefix.done(moment.offset)
            case "dead":
                dead.append(moment.offset)
                prefix.done(moment.offset)
            case "move":
                prefix.move_to(moment.offset)
                # What was sent back before is in the retry topic, and stays there.
                for offset in dead:
                    if offset >= moment.offset:
                        prefix.done(offset)
            case "reset":
                prefix.move_to(moment.offset)
            case "commit" | "reading":
                if moment.offset > prefix.lowest_undone:
                    findings.violation(
                        f"{_of(queue)}: {moment.offset} {moment.kind} though",
                        f"{prefix.lowest_undone} is not done:",
                        moment.who,
                    )
                findings.counts[f"{moment.kind}s"] += 1


def _check_readings(history: History, findings: Findings) -> None:
    """Check that no reading is behind a commit, or a reading, that was answered before it."""
    committed = history.once(Committed)
    resets = Moments()
    for notice in history.noticed(Verb.RESET):
        values = notice.values
        resets.add((values["group"], Place(values["topic"], values["queue"])), notice.at_ns)
    for act in acts.of(history, Verb.MOVE):
        resets.add(act.queue, act.start_ns)
        resets.add(act.queue, act.end_ns)
    highest: dict[Queue, tuple[int, int]] = {}
    for operation in history.of(Verb.PROGRESS):
        if not operation.is_ok:
            continue
        group = operation.asked["group"]
        for topic, queue, reading, _ in operation.told["offsets"]:
            place = Place(topic, queue)
            at_least = committed.before(group, place, operation.start_ns)
            read_ns, read_before = highest.get((group, place), (0, 0))
            if read_ns < operation.start_ns and not resets.any_in(
                (group, place), read_ns, operation.end_ns
            ):
                at_least = max(at_least, read_before)
            if reading < at_least:
                if not resets.any_in((group, place), operation.start_ns, operation.end_ns):
                    findings.violation(f"{group} {place}: {at_least} became {reading}:", operation)
                continue
            highest[group, place] = (operation.end_ns, reading)


def _of(queue: Queue) -> str:
    group, place = queue
    return f"{group} {place}"
