"""What a person does about an alert. Knows rows."""

from apps.alerts.judging import State
from apps.alerts.models import Alert, AlertEvent
from apps.alerts.models.fields import TEXT_CHARACTERS_MAX
from apps.alerts.services.locking import locked_watch
from apps.audit.services import recorded
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.phrases import sentence
from apps.engine.errors import InvalidArgument


def acknowledge(*, alert_id: int, note: str = "", by: str, now_ms: int) -> Alert:
    """Say that somebody looks after an alert that fires; again is answered as the first time.

    Raises `not_found`, `conflict` for one that is pending or over, and InvalidArgument for a note
    that is too long.
    """
    if len(note) > TEXT_CHARACTERS_MAX:
        raise InvalidArgument(
            sentence(
                "a note has at most %(text_characters_max)s characters",
                text_characters_max=TEXT_CHARACTERS_MAX,
            )
        )
    with recorded(
        by=by, act="alert.acknowledge", kind="alert", name=str(alert_id), reason=note
    ) as entry:
        locked_watch()
        alert = Alert.objects.filter(pk=alert_id).first()
        if alert is None:
            raise ProblemError(
                "not_found", sentence("there is no alert %(alert_id)s", alert_id=alert_id)
            )
        if alert.state == State.ACKNOWLEDGED:
            entry.forget()
            return alert
        if alert.state != State.FIRING:
            raise ProblemError(
                "conflict", sentence("the alert is %(state)s, it does not fire", state=alert.state)
            )
        told = {"rule": alert.rule_name, "subject": alert.subject, "value": alert.value}
        entry.before = {**told, "state": alert.state}
        entry.after = {**told, "state": State.ACKNOWLEDGED.value}
        alert.state = State.ACKNOWLEDGED.value
        alert.acknowledged_at = moment(now_ms)
        alert.acknowledged_by = by
        alert.note = note
        alert.save(update_fields=["state", "acknowledged_at", "acknowledged_by", "note"])
        AlertEvent.objects.create(
            alert=alert,
            at=moment(now_ms),
            state=alert.state,
            value=alert.value,
            by=by,
            note=note,
        )
    return alert
