"""What may be wrong with a group, as questions answered. Pure: knows what the engine says.

Each answer says what was looked at. What cannot be known now is unknown, and never fine.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.console.templatetags import mq
from apps.engine.grouptypes import MemberState, QueueBacklog, QueueLockState
from apps.engine.litetypes import LiteBacklog
from apps.engine.types import ClientSeen, GroupSpec
from apps.groups.blocked import BlockedBy, BlockedQueue, is_idle

# The third heartbeat that did not come: the broker takes a member's queues then.
SILENT_S = 30
# What differs by less is the noise of batches.
_NOISE = 0.02


class Verdict(StrEnum):
    """How a question was answered."""

    FINE = "fine"
    TROUBLE = "trouble"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A question, its answer, and what was seen; `link` leads to where it can be changed."""

    question: str
    verdict: str
    details: Sequence[str]
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known of a group at one moment; rates in messages a second, None for unknown."""

    spec: GroupSpec
    members: Sequence[MemberState]
    clients: Sequence[ClientSeen]
    backlog: Sequence[QueueBacklog]
    lites: Sequence[LiteBacklog]
    blocked: Sequence[BlockedQueue]
    locks: Sequence[QueueLockState]
    in_per_s: float | None
    out_per_s: float | None
    dead_letters: int | None
    now_ms: int
    base: str


def findings(seen: Seen) -> list[Finding]:
    """Answer every question, in the order an operator asks them."""
    return [
        _enabled(seen),
        _read(seen),
        _silent(seen),
        _subscriptions(seen),
        _strategies(seen),
        _idle(seen),
        _suspended(seen),
        _blocked(seen),
        _locks(seen),
        _rates(seen),
        _letters(seen),
    ]


def _finding(question: str, details: Iterable[str], fine: str, *, link: str = "") -> Finding:
    found = list(details)
    verdict = Verdict.TROUBLE if found else Verdict.FINE
    return Finding(
        question=question,
        verdict=verdict.value,
        details=found or [fine],
        link=link if found else "",
    )


def _enabled(seen: Seen) -> Finding:
    details = [] if seen.spec.enabled else [_("It is disabled: whoever asks is refused.")]
    return _finding(_("May the group read?"), details, _("It is enabled."))


def _read(seen: Seen) -> Finding:
    read = {wanted.topic for member in seen.members for wanted in member.subscriptions}
    read |= {topic for client in seen.clients for topic in client.topics}
    left: dict[str, int] = {}
    for row in seen.backlog:
        if not row.topic.startswith("%RETRY%"):
            left[row.topic] = left.get(row.topic, 0) + row.max_offset - row.committed
    for lites in seen.lites:
        left[lites.topic] = left.get(lites.topic, 0) + (lites.lag or 0)
    details = [
        _("%(topic)s: nobody reads it, and %(count)s messages wait.")
        % {"topic": topic, "count": mq.count(lag)}
        for topic, lag in sorted(left.items())
        if lag and topic not in read
    ]
    if not seen.members and not seen.clients:
        details.append(_("No client has asked for messages of late."))
    return _finding(_("Does somebody read every topic?"), details, _("Every topic has a reader."))


def _silent(seen: Seen) -> Finding:
    details = [
        _("%(client)s was last heard %(ago)s.")
        % {"client": member.client_id, "ago": mq.ago((seen.now_ms - member.last_seen_ms) // 1000)}
        for member in seen.members
        if not member.is_waiting and seen.now_ms - member.last_seen_ms >= SILENT_S * 1000
    ]
    return _finding(_("Are all members heard of?"), details, _("Every member keeps its heartbeat."))


def _subscriptions(seen: Seen) -> Finding:
    details = []
    for topic in sorted({topic for member in seen.members for topic in member.conflicts}):
        wanted = sorted(
            f"{member.client_id} ({one.filter})"
            for member in seen.members
            for one in member.subscriptions
            if one.topic == topic
        )
        details.append(f"{topic}: {', '.join(wanted)}")
    return _finding(
        _("Do all members want the same?"),
        details,
        _("No two members want different messages of one topic."),
        link=f"{seen.base}members/",
    )


def _strategies(seen: Seen) -> Finding:
    wishes = {member.strategy for member in seen.members if member.strategy is not None}
    details = []
    if seen.spec.strategy is None and len(wishes) > 1:
        details.append(
            _("Members wish for %(wishes)s: the broker follows the most of them.")
            % {"wishes": ", ".join(sorted(wishes))}
        )
    return _finding(
        _("Do all members wish for one strategy?"),
        details,
        _("The queues are shared out by one strategy."),
        link=f"{seen.base}what-if/",
    )


def _idle(seen: Seen) -> Finding:
    details = [
        _("%(client)s has no queue.") % {"client": member.client_id}
        for member in seen.members
        if is_idle(member)
    ]
    return _finding(
        _("Has every member a queue?"),
        details,
        _("No member is idle."),
        link=f"{seen.base}what-if/",
    )


def _suspended(seen: Seen) -> Finding:
    details = [
        _("%(topic)s/%(queue)s by %(by)s: %(reason)s")
        % {
            "topic": row.topic,
            "queue": row.queue,
            "by": row.suspension.by,
            "reason": row.suspension.reason,
        }
        for row in seen.backlog
        if row.suspension is not None
    ]
    return _finding(_("Is any queue suspended?"), details, _("None is."), link=f"{seen.base}locks/")


def _blocked(seen: Seen) -> Finding:
    details = list(_stuck(seen))
    return _finding(
        _("Does every queue get on?"),
        details,
        _("No head fails again and again, and no owner stands still."),
        link=f"{seen.base}locks/",
    )


def _stuck(seen: Seen) -> Iterator[str]:
    for one in seen.blocked:
        where = f"{one.topic}/{one.queue}"
        if one.reason is BlockedBy.SUSPENDED:
            continue
        said = _("%(where)s at offset %(offset)s") % {"where": where, "offset": one.queue_offset}
        if one.attempts is not None:
            tries = ngettext("tried %(count)d time", "tried %(count)d times", one.attempts) % {
                "count": one.attempts
            }
            said = f"{said}, {tries}"
        if one.since_ms is not None:
            ago = mq.ago(max(0, seen.now_ms - one.since_ms) // 1000)
            said = _("%(said)s, nothing done since %(ago)s") % {"said": said, "ago": ago}
        yield f"{said}. {one.detail}".rstrip()


def _locks(seen: Seen) -> Finding:
    owners = {(row.topic, row.queue): row.owner for row in seen.backlog}
    details = []
    for lock in seen.locks:
        owner = owners.get((lock.topic, lock.queue))
        if lock.expires_in_ms > 0 and owner is not None and owner != lock.owner:
            details.append(
                _("%(topic)s/%(queue)s is %(owner)s's, and %(holder)s still has its lock.")
                % {
                    "topic": lock.topic,
                    "queue": lock.queue,
                    "owner": owner,
                    "holder": lock.owner,
                }
            )
    return _finding(
        _("Has every owner the lock of its queue?"),
        details,
        _("No lock is held by somebody else than the owner."),
        link=f"{seen.base}locks/",
    )


def _rates(seen: Seen) -> Finding:
    question = _("Is it fast enough?")
    if seen.in_per_s is None or seen.out_per_s is None:
        text = _("The rates are not known yet: they need two looks, some seconds apart.")
        return Finding(question=question, verdict=Verdict.UNKNOWN.value, details=[text])
    figures = _("%(in)s messages a second come, %(out)s are done.") % {
        "in": mq.rate(seen.in_per_s),
        "out": mq.rate(seen.out_per_s),
    }
    lag = sum(row.max_offset - row.committed for row in seen.backlog)
    lag += sum(lites.lag or 0 for lites in seen.lites)
    is_slow = lag > 0 and seen.in_per_s > seen.out_per_s * (1 + _NOISE) + _NOISE
    verdict = Verdict.TROUBLE if is_slow else Verdict.FINE
    return Finding(question=question, verdict=verdict.value, details=[figures])


def _letters(seen: Seen) -> Finding:
    question = _("Are there dead letters?")
    if seen.dead_letters is None:
        text = _("They are not counted yet.")
        return Finding(question=question, verdict=Verdict.UNKNOWN.value, details=[text])
    details = []
    if seen.dead_letters:
        details.append(
            ngettext("%(count)s waits.", "%(count)s wait.", seen.dead_letters)
            % {"count": mq.count(seen.dead_letters)}
        )
    return _finding(question, details, _("None waits."), link=f"{seen.base}retries/")
