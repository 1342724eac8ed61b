"""Keep acts: around those that are done, and for those that are refused.

    with recorded(by=by, act="topic.delete", kind="topic", name=name, before=values) as entry:
        ...
        entry.after = None

Knows acts, entries and the origin of a request; nothing of topics, groups or any other object.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction

from apps.audit import cutting
from apps.audit.acts import Act, Place, act_of
from apps.audit.models import AuditEntry, Result
from apps.audit.recording import Line, append
from apps.audit.refusals import Refusal, Tally
from apps.clockwork.steps import Step
from apps.core import origins, requestids
from apps.core.exceptions import DATABASE_ERRORS, ProblemError
from apps.engine.clock import SystemClock
from apps.engine.errors import EngineError

_log = logging.getLogger("mqweb.audit")

_tally = Tally()


class AuditUnavailable(ProblemError):
    """The act was not begun: it could not be written down that somebody asked for it."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__(
            "audit_unavailable",
            "nothing was done: the audit log cannot be written, as the database does not answer",
        )


@dataclass(slots=True, kw_only=True)
class Recording:
    """What an act says of itself while it goes on; the values are those of `AuditEntry`."""

    by: str
    act: str
    kind: str
    name: str
    reason: str = ""
    before: Mapping[str, object] | None = None
    after: Mapping[str, object] | None = None
    refused_code: str = ""
    detail: str = ""
    is_kept: bool = True

    def refuse(self, code: str, detail: str = "") -> None:
        """Say that the act was not carried out, where that is an answer and no error."""
        self.refused_code, self.detail = code, detail

    def forget(self) -> None:
        """Say that nothing was changed: then there is nothing to keep of an act on rows."""
        self.is_kept = False


@contextmanager
def recorded(
    *,
    by: str,
    act: str,
    kind: str,
    name: str,
    reason: str = "",
    before: Mapping[str, object] | None = None,
) -> Iterator[Recording]:
    """Keep what is done in the block as one act of `by`; say in the block what comes of it.

    An act on rows is one transaction with its entry: where that cannot be written, nothing is done.
    If it raises, all is taken back, and the refusal is kept. An act in steps, as all of the engine
    are, has an entry before it, committed, and another with its outcome; such a block must not be
    in a transaction. Raises AuditUnavailable before the block where the first entry cannot
    be written, KeyError for an act that the list does not have, and what the block raises.
    """
    known = act_of(act)
    recording = Recording(by=by, act=act, kind=kind, name=name, reason=reason, before=before)
    around = _of_rows if known.place is Place.DATABASE else _of_steps
    with around(recording):
        yield recording


def refused(
    *,
    by: str,
    act: str = "access.refused",
    kind: str,
    name: str,
    code: str,
    detail: str = "",
    reason: str = "",
    origin: origins.Origin | None = None,
) -> None:
    """Keep that something was refused: the first of a minute at once, further ones as a count.

    `origin` is for doors that have no middleware to say where their callers come from.

    What cannot be written now, because the database is away, is counted and written later. May be
    called as often as somebody knocks: a minute makes at most some two hundred entries of a
    process. It asks the database, so not to be called on an event loop; see `count_refusal`.
    """
    _note(_refusal(by, act, kind, name, code, detail, reason, origin=origin))


def count_refusal(
    *,
    by: str,
    act: str = "access.refused",
    kind: str,
    name: str,
    code: str,
    detail: str = "",
    origin: origins.Origin | None = None,
) -> None:
    """Count a refusal without asking the database; the broker writes it within ten seconds.

    For doors that are served on an event loop; `origin` as in `refused`.
    """
    _tally.note(_refusal(by, act, kind, name, code, detail, "", origin=origin), now_ms=_now_ms())


def write_refusals(*, is_last: bool = False) -> int:
    """Write what waits to be written, with `is_last` the counts of this minute too; count it.

    Raises what the database raises; nothing that was counted is lost by that.
    """
    left = _tally.take(now_ms=_now_ms(), is_last=is_last)
    count = len(left)
    try:
        while left:
            append(_line_of(left[0]))
            left.pop(0)
    finally:
        _tally.give_back(left)
    return count


@contextmanager
def _of_rows(recording: Recording) -> Iterator[None]:
    try:
        with transaction.atomic():
            yield
            if recording.is_kept:
                append(_line(recording, _result_of(recording), code=recording.refused_code))
    except (EngineError, ProblemError) as error:
        # The transaction is taken back, and with it whatever was written; this is kept beside it.
        _note(_refusal_of(recording, error))
        raise


@contextmanager
def _of_steps(recording: Recording) -> Iterator[None]:
    asked = _asked(recording)
    try:
        yield
    except EngineError as error:
        result = Result.FAILED if error.retriable else Result.REFUSED
        _outcome(recording, asked, result, code=error.code, detail=str(error))
        raise
    except ProblemError as error:
        result = Result.FAILED if error.kind.retriable else Result.REFUSED
        _outcome(recording, asked, result, code=error.kind.code, detail=str(error))
        raise
    except BaseException as error:
        # Whatever it was, it may have been done: that is what the entry must say.
        _outcome(
            recording, asked, Result.FAILED, code="internal_error", detail=type(error).__name__
        )
        raise
    _outcome(
        recording,
        asked,
        _result_of(recording),
        code=recording.refused_code,
        detail=recording.detail,
    )


def _asked(recording: Recording) -> AuditEntry:
    try:
        # Durable: an entry that could be taken back with a transaction around it proves nothing.
        with transaction.atomic(durable=True):
            return append(_line(recording, Result.ASKED))
    except DATABASE_ERRORS as error:
        _log.warning("act_not_begun", extra={"act": recording.act, "detail": str(error)})
        raise AuditUnavailable from error


def _outcome(
    recording: Recording, asked: AuditEntry, result: Result, *, code: str, detail: str
) -> None:
    recording.detail = detail
    try:
        append(_line(recording, result, code=code, follows=asked.number))
    except DATABASE_ERRORS as error:
        # It is done, or not, all the same; the entry before it stays without an outcome.
        extra = {"number": asked.number, "act": recording.act, "result": result.value}
        _log.error("act_without_outcome", extra={**extra, "detail": str(error)})


def _result_of(recording: Recording) -> Result:
    return Result.REFUSED if recording.refused_code else Result.DONE


def _line(
    recording: Recording, result: Result, *, code: str = "", follows: int | None = None
) -> Line:
    is_asked = result is Result.ASKED
    return Line(
        by=recording.by,
        act=recording.act,
        kind=recording.kind,
        name=recording.name,
        result=result,
        origin=origins.current.get(),
        request_id=requestids.current.get(),
        reason=recording.reason,
        before=recording.before,
        after=None if is_asked else recording.after,
        code=code,
        detail="" if is_asked else recording.detail,
        follows=follows,
    )


def _refusal_of(recording: Recording, error: EngineError | ProblemError) -> Refusal:
    code = error.code if isinstance(error, EngineError) else error.kind.code
    return _refusal(
        recording.by,
        recording.act,
        recording.kind,
        recording.name,
        code,
        str(error),
        recording.reason,
    )


def _refusal(
    by: str,
    act: str,
    kind: str,
    name: str,
    code: str,
    detail: str,
    reason: str,
    *,
    origin: origins.Origin | None = None,
) -> Refusal:
    known: Act = act_of(act)
    return Refusal(
        by=by,
        act=known.name,
        kind=kind,
        name=name,
        code=code,
        detail=detail,
        reason=reason,
        origin=origin or origins.current.get(),
        request_id=requestids.current.get(),
    )


def _note(refusal: Refusal) -> None:
    """Count a refusal and write what waits; where the database is away that is done later."""
    _tally.note(refusal, now_ms=_now_ms())
    try:
        write_refusals()
    except DATABASE_ERRORS as error:
        _log.warning("refusals_not_written", extra={"detail": str(error)})


def _line_of(refusal: Refusal) -> Line:
    return Line(
        by=refusal.by,
        act=refusal.act,
        kind=refusal.kind,
        name=refusal.name,
        result=Result.REFUSED,
        origin=refusal.origin,
        request_id=refusal.request_id,
        reason=refusal.reason,
        after={"names": list(refusal.names)} if refusal.names else None,
        code=refusal.code,
        detail=refusal.detail,
        count=refusal.count,
    )


def _now_ms() -> int:
    return SystemClock().wall_ms()


def note_export(*, chosen: Mapping[str, str], by: str) -> None:
    """Keep that somebody takes entries away, and which."""
    with recorded(by=by, act="audit.export", kind="audit", name="entries") as entry:
        entry.after = dict(chosen)


def cut_old(*, now_ms: int) -> Step:
    """Cut off what is older than the setting says is kept; nothing by default. One bounded step."""
    return cutting.cut(now_ms=now_ms, keep_days=settings.MQWEB.audit_keep_days)
