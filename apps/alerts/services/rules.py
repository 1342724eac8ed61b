"""Rules and silences, as operators make, change and end them. Knows rows.

A change names the version it was made from, so that nobody overwrites what another has changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import IntegrityError, transaction

from apps.alerts.kinds import KINDS, THRESHOLD_MAX, Kind, Scope, Severity
from apps.alerts.models import AlertRule, Silence
from apps.alerts.models.fields import (
    NAME_CHARACTERS_MAX,
    SUBJECT_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
)
from apps.alerts.models.rules import PENDING_S_MAX
from apps.alerts.services.locking import locked_watch
from apps.audit.services import recorded
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.phrases import sentence
from apps.engine.errors import InvalidArgument

# An evaluation looks at every one.
RULES_MAX = 200
# A silence that is longer was meant to be a rule that is disabled.
SILENCE_MS_MAX = 30 * 86_400_000

_RULE_COLUMNS = (
    "name", "kind", "threshold", "scope", "subject", "pending_s", "severity", "enabled",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTerms:
    """What a rule says."""

    name: str
    kind: str
    threshold: float
    scope: str = Scope.ANY
    subject: str = ""
    pending_s: int = 60
    severity: str = Severity.WARNING
    enabled: bool = True

    def columns(self) -> Mapping[str, object]:
        """Return the values by column; raise InvalidArgument for one a rule cannot have."""
        if not 1 <= len(self.name.strip()) <= len(self.name) <= NAME_CHARACTERS_MAX:
            raise InvalidArgument(
                sentence(
                    "a name has 1 to %(name_characters_max)s characters",
                    name_characters_max=NAME_CHARACTERS_MAX,
                )
            )
        if self.kind not in list(Kind):
            raise InvalidArgument(sentence("%(kind)s is no kind of alert", kind=repr(self.kind)))
        if self.severity not in list(Severity):
            raise InvalidArgument(
                sentence("%(severity)s is no severity", severity=repr(self.severity))
            )
        check_scope(self.scope, self.subject)
        if self.scope != Scope.ANY and not KINDS[Kind(self.kind)].by_group:
            raise InvalidArgument(
                sentence("%(kind)s is about the broker, not about a group", kind=self.kind)
            )
        if not 0 < self.threshold <= THRESHOLD_MAX:
            raise InvalidArgument(sentence("a threshold is more than 0"))
        if not 0 <= self.pending_s <= PENDING_S_MAX:
            raise InvalidArgument(
                sentence("pending_s is from 0 to %(pending_s_max)s", pending_s_max=PENDING_S_MAX)
            )
        return {
            "name": self.name,
            "kind": self.kind,
            "threshold": self.threshold,
            "scope": self.scope,
            "subject": self.subject,
            "pending_s": self.pending_s,
            "severity": self.severity,
            "enabled": self.enabled,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceTerms:
    """What is silenced, from when to when, and why; an empty `kind` is any."""

    kind: str = ""
    scope: str = Scope.ANY
    subject: str = ""
    starts_ms: int
    ends_ms: int
    reason: str


def check_scope(scope: str, subject: str) -> None:
    """Raise InvalidArgument for a scope without its subject, or the other way round."""
    if scope not in list(Scope):
        raise InvalidArgument(
            sentence("%(scope)s is no scope: any, prefix or name", scope=repr(scope))
        )
    if (scope == Scope.ANY) != (subject == ""):
        raise InvalidArgument(sentence("a prefix or a name needs a subject, and any has none"))
    if len(subject) > SUBJECT_CHARACTERS_MAX or "\0" in subject:
        raise InvalidArgument(
            sentence(
                "a subject has at most %(subject_characters_max)s characters",
                subject_characters_max=SUBJECT_CHARACTERS_MAX,
            )
        )


def create_rule(*, terms: RuleTerms, by: str, now_ms: int) -> AlertRule:
    """Make a rule; the next evaluation looks at it.

    Raises InvalidArgument, and `conflict` where the name is taken or there are too many rules.
    """
    columns = terms.columns()
    with recorded(by=by, act="alert_rule.create", kind="alert rule", name=terms.name) as entry:
        if AlertRule.objects.count() >= RULES_MAX:
            raise ProblemError(
                "conflict",
                sentence(
                    "there are %(rules_max)s rules, and there may be no more", rules_max=RULES_MAX
                ),
            )
        entry.after = columns
        now = moment(now_ms)
        try:
            with transaction.atomic():
                return AlertRule.objects.create(
                    **columns, created_by=by, created_at=now, updated_by=by, updated_at=now
                )
        except IntegrityError as error:
            raise ProblemError(
                "conflict", sentence("there is a rule %(name)s already", name=repr(terms.name))
            ) from error


def change_rule(*, rule_id: int, terms: RuleTerms, version: int, by: str, now_ms: int) -> AlertRule:
    """Have a rule say something else.

    Raises InvalidArgument, `not_found`, and `conflict` where it has another version or the name is
    another rule's.
    """
    columns = terms.columns()
    with recorded(by=by, act="alert_rule.change", kind="alert rule", name=terms.name) as entry:
        found = AlertRule.objects.select_for_update().filter(pk=rule_id).first()
        if found is not None:
            entry.before = {name: getattr(found, name) for name in columns}
        entry.after = columns
        try:
            with transaction.atomic():
                changed = AlertRule.objects.filter(pk=rule_id, version=version).update(
                    **columns, version=version + 1, updated_by=by, updated_at=moment(now_ms)
                )
        except IntegrityError as error:
            raise ProblemError(
                "conflict", sentence("there is a rule %(name)s already", name=repr(terms.name))
            ) from error
        if not changed:
            _refuse_change("rule", rule_id, found is not None)
        return AlertRule.objects.get(pk=rule_id)


def delete_rule(*, rule_id: int, by: str) -> None:
    """Delete a rule; its open alerts end with the next evaluation. Raises `not_found`."""
    with recorded(by=by, act="alert_rule.delete", kind="alert rule", name=str(rule_id)) as entry:
        locked_watch()
        found = AlertRule.objects.select_for_update().filter(pk=rule_id).first()
        if found is None:
            raise ProblemError(
                "not_found", sentence("there is no rule %(rule_id)s", rule_id=rule_id)
            )
        entry.name = found.name
        entry.before = {name: getattr(found, name) for name in _RULE_COLUMNS}
        found.delete()


def create_silence(*, terms: SilenceTerms, by: str, now_ms: int) -> Silence:
    """Have nobody be told of some alerts for a time. Raises InvalidArgument."""
    check_scope(terms.scope, terms.subject)
    if terms.kind and terms.kind not in list(Kind):
        raise InvalidArgument(sentence("%(kind)s is no kind of alert", kind=repr(terms.kind)))
    if not 1 <= len(terms.reason.strip()) <= len(terms.reason) <= TEXT_CHARACTERS_MAX:
        raise InvalidArgument(
            sentence(
                "a reason has 1 to %(text_characters_max)s characters",
                text_characters_max=TEXT_CHARACTERS_MAX,
            )
        )
    if not max(terms.starts_ms, now_ms) < terms.ends_ms:
        raise InvalidArgument(sentence("a silence ends after it begins, and not before now"))
    if terms.ends_ms - terms.starts_ms > SILENCE_MS_MAX:
        raise InvalidArgument(
            sentence(
                "a silence is at most %(silence_ms_max)s days long",
                silence_ms_max=SILENCE_MS_MAX // 86400000,
            )
        )
    with recorded(
        by=by, act="silence.create", kind="silence", name="", reason=terms.reason
    ) as entry:
        made = Silence.objects.create(
            kind=terms.kind,
            scope=terms.scope,
            subject=terms.subject,
            starts_at=moment(terms.starts_ms),
            ends_at=moment(terms.ends_ms),
            reason=terms.reason,
            created_by=by,
            created_at=moment(now_ms),
        )
        entry.name = str(made.pk)
        entry.after = _silenced(made)
        return made


def end_silence(*, silence_id: int, by: str, now_ms: int) -> Silence:
    """End a silence before its time. Raises `not_found`, and `conflict` for one that is over."""
    now = moment(now_ms)
    with recorded(by=by, act="silence.end", kind="silence", name=str(silence_id)) as entry:
        found = Silence.objects.select_for_update().filter(pk=silence_id).first()
        if found is None:
            raise ProblemError(
                "not_found", sentence("there is no silence %(silence_id)s", silence_id=silence_id)
            )
        if found.ended_at is not None or found.ends_at <= now:
            raise ProblemError("conflict", sentence("the silence is over"))
        entry.before = _silenced(found)
        found.ended_at, found.ended_by = now, by
        found.save(update_fields=["ended_at", "ended_by"])
        entry.after = {**_silenced(found), "ended_at": now}
        return found


def _silenced(silence: Silence) -> Mapping[str, object]:
    """Return what is silenced and until when, as the audit log keeps it."""
    return {
        "kind": silence.kind or "any",
        "scope": silence.scope,
        "subject": silence.subject,
        "starts_at": silence.starts_at,
        "ends_at": silence.ends_at,
    }


def _refuse_change(what: str, number: int, is_there: bool) -> None:
    if not is_there:
        raise ProblemError(
            "not_found", sentence("there is no %(what)s %(number)s", what=what, number=number)
        )
    raise ProblemError(
        "conflict", sentence("somebody has changed the %(what)s meanwhile: look again", what=what)
    )
