"""Asking for runs and calling them off. Knows rows; starts nothing.

What is asked for is known by its key: job, window, topics, parameters and version of the code.
Asking again for what waits, runs or is done gives that run back.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import IntegrityError, transaction

from apps.audit.services import recorded
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.phrases import sentence
from apps.engine.clock import SystemClock
from apps.engine.errors import InvalidArgument, UnknownTopic
from apps.pipelines.catalogue import COPYING, JOBS
from apps.pipelines.models import IngestPosition, LakeFile, PipelineRun, RunState, Trigger
from apps.pipelines.models.runs import ACTIVE
from apps.pipelines.versions import code_version
from apps.topics.models import Topic

WINDOW_MAX = timedelta(days=366)
TOPICS_MAX = 1_000
PARAMETERS_MAX = 20
PARAMETER_CHARACTERS_MAX = 1_000
BACKFILL_WINDOWS_MAX = 10_000

_PARAMETER_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)

Parameter = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """Runs of a stretch of time, the earliest first; `made` counts those that were not there."""

    runs: Sequence[PipelineRun]
    made: int


def ask(
    *,
    job: str,
    window_start: datetime,
    window_end: datetime,
    topics: Sequence[str] = (),
    parameters: Mapping[str, Parameter] | None = None,
    trigger: Trigger | str,
    by: str,
    replace: bool = False,
) -> PipelineRun:
    """Return the run that does this: the one that waits, runs or is done, or else a new one.

    `topics` empty is all of them. With `replace` a run that is done does not count; one that waits
    or runs does, since it has yet to read. A new run `replaces` the one whose results for the same
    job, window, topics and parameters are to be seen now, of whatever version of the code; those of
    jobs that copy replace nothing.

    Raises InvalidArgument for an unknown job, a window that is empty, has not ended or is longer
    than a year, and parameters that are no plain values; UnknownTopic for a topic that neither the
    broker nor the lake knows.
    """
    if Trigger(trigger) is Trigger.SCHEDULE:
        # What the clockwork does by its table nobody has asked for.
        wish = _checked(job, window_start, window_end, topics, parameters or {})
        return _asked(wish, trigger=Trigger.SCHEDULE, by=by, replace=replace)[0]
    with recorded(by=by, act="pipeline.ask", kind="pipeline run", name="") as entry:
        wish = _checked(job, window_start, window_end, topics, parameters or {})
        run, is_new = _asked(wish, trigger=Trigger(trigger), by=by, replace=replace)
        entry.name, entry.after = str(run.pk), _told(run)
        if not is_new:
            entry.forget()
    return run


def again(run: PipelineRun, *, by: str) -> PipelineRun:
    """Ask for what a run did anew, for a person; what is published of it stays until that is done.

    Raises what `ask` raises.
    """
    with recorded(
        by=by, act="pipeline.rerun", kind="pipeline run", name=str(run.pk), before=_told(run)
    ) as entry:
        wish = _checked(run.job, run.window_start, run.window_end, run.topics, run.parameters)
        new, is_new = _asked(wish, trigger=Trigger.PERSON, by=by, replace=True)
        entry.after = _told(new)
        if not is_new:
            entry.forget()
    return new


def backfill(
    *,
    job: str,
    start: datetime,
    end: datetime,
    step: timedelta,
    topics: Sequence[str] = (),
    parameters: Mapping[str, Parameter] | None = None,
    by: str,
    replace: bool = False,
) -> Backfill:
    """Ask for each window of `step` from `start` on; the last one ends at `end`.

    Asked again it goes on where it was cut off: runs that wait, run or are done are given back, and
    what failed or was cancelled is asked for anew. Other runs go first. Raises what `ask` raises,
    before anything is asked for, and InvalidArgument for more than 10,000 windows.
    """
    if step < timedelta(seconds=1):
        raise InvalidArgument(sentence("step must be a second or more"))
    whole = _checked(job, start, end, topics, parameters or {}, length_max=timedelta.max)
    count = -((whole.window_start - whole.window_end) // step)
    if count > BACKFILL_WINDOWS_MAX:
        raise InvalidArgument(
            sentence(
                "%(count)s windows are more than %(backfill_windows_max)s",
                count=count,
                backfill_windows_max=BACKFILL_WINDOWS_MAX,
            )
        )
    if min(step, whole.window_end - whole.window_start) > WINDOW_MAX:
        raise InvalidArgument(sentence("a window is %(days)s days at most", days=WINDOW_MAX.days))
    with recorded(by=by, act="pipeline.backfill", kind="pipeline job", name=job) as entry:
        entry.after = {
            "from": whole.window_start,
            "to": whole.window_end,
            "step": step,
            "topics": whole.topics,
            "parameters": whole.parameters,
            "replace": replace,
        }
        found = _backfilled(whole, step=step, count=count, by=by, replace=replace)
        entry.after = {**entry.after, "windows": count, "made": found.made}
    return found


def _backfilled(whole: "_Wish", *, step: timedelta, count: int, by: str, replace: bool) -> Backfill:
    runs, made = [], 0
    for number in range(count):
        begins = whole.window_start + number * step
        wish = _Wish(
            job=whole.job,
            window_start=begins,
            window_end=min(begins + step, whole.window_end),
            topics=whole.topics,
            parameters=whole.parameters,
        )
        run, is_new = _asked(wish, trigger=Trigger.BACKFILL, by=by, replace=replace)
        runs.append(run)
        made += is_new
    return Backfill(runs=runs, made=made)


def cancel(run_id: int, *, by: str) -> PipelineRun:
    """Call a run off: one that waits ends at once, one that runs within a second or two.

    Asked again it changes nothing. Raises `not_found`, and `conflict` for a run that has ended
    otherwise.
    """
    with recorded(by=by, act="pipeline.cancel", kind="pipeline run", name=str(run_id)) as entry:
        run = PipelineRun.objects.select_for_update(of=("self",)).filter(pk=run_id).first()
        if run is None:
            raise ProblemError("not_found", sentence("there is no run %(run_id)s", run_id=run_id))
        if run.cancel_requested:
            entry.forget()
            return run
        if not run.is_active:
            raise ProblemError(
                "conflict",
                sentence(
                    "run %(run_id)s has ended: it is %(state)s", run_id=run_id, state=run.state
                ),
            )
        entry.before = _told(run)
        run.cancel_requested = True
        run.cancelled_by = by[:255]
        if run.state == RunState.QUEUED:
            run.state = RunState.CANCELLED
            run.ended_at = moment(SystemClock().wall_ms())
        run.save(update_fields=["cancel_requested", "cancelled_by", "state", "ended_at"])
        entry.after = {**_told(run), "cancel_requested": True}
    return run


def _told(run: PipelineRun) -> dict[str, object]:
    return {
        "run": run.pk,
        "job": run.job,
        "from": run.window_start,
        "to": run.window_end,
        "topics": run.topics,
        "parameters": run.parameters,
        "state": run.state,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What was asked for, checked; topics sorted, each once."""

    job: str
    window_start: datetime
    window_end: datetime
    topics: tuple[str, ...]
    parameters: dict[str, Parameter]

    def key(self, version: str) -> str:
        """Return the digest that tells runs apart."""
        text = json.dumps(
            {
                "job": self.job,
                "from": self.window_start.astimezone(UTC).isoformat(),
                "to": self.window_end.astimezone(UTC).isoformat(),
                "topics": self.topics,
                "parameters": self.parameters,
                "code": version,
            },
            sort_keys=True,
            separators=(",", ":"),
        )
        return hashlib.sha256(text.encode()).hexdigest()


def _asked(wish: _Wish, *, trigger: Trigger, by: str, replace: bool) -> tuple[PipelineRun, bool]:
    version = code_version(wish.job)
    key = wish.key(version)
    counts = ACTIVE if replace else (*ACTIVE, RunState.DONE)
    same = PipelineRun.objects.filter(key=key, state__in=counts)
    # Two that ask at once: the database lets one make the row, and the other finds it.
    for _ in range(2):
        found = same.first()
        if found is not None:
            return found, False
        try:
            with transaction.atomic():
                return _made(wish, key=key, version=version, trigger=trigger, by=by), True
        except IntegrityError:
            continue
    raise ProblemError(
        "conflict", sentence("others ask for %(job)s at this moment; ask again", job=wish.job)
    )


def _made(wish: _Wish, *, key: str, version: str, trigger: Trigger, by: str) -> PipelineRun:
    shown = PipelineRun.objects.filter(
        job=wish.job,
        window_start=wish.window_start,
        window_end=wish.window_end,
        topics=list(wish.topics),
        parameters=wish.parameters,
        state=RunState.DONE,
    )
    return PipelineRun.objects.create(
        job=wish.job,
        window_start=wish.window_start,
        window_end=wish.window_end,
        topics=list(wish.topics),
        parameters=wish.parameters,
        key=key,
        code_version=version,
        trigger=trigger,
        requested_by=by[:255],
        requested_at=moment(SystemClock().wall_ms()),
        replaces=None if wish.job in COPYING else shown.first(),
    )


def _checked(
    job: str,
    start: datetime,
    end: datetime,
    topics: Sequence[str],
    parameters: Mapping[str, Parameter],
    *,
    length_max: timedelta = WINDOW_MAX,
) -> _Wish:
    if job not in JOBS:
        raise InvalidArgument(
            sentence(
                "there is no job %(job)s; there are %(jobs)s",
                job=repr(job[:40]),
                jobs=", ".join(JOBS),
            )
        )
    if start.tzinfo is None or end.tzinfo is None:
        raise InvalidArgument(
            sentence("from and to must say their time zone, such as 2026-01-31T00:00:00Z")
        )
    if end <= start:
        raise InvalidArgument(sentence("a window must end after it begins"))
    if end - start > length_max:
        raise InvalidArgument(sentence("a window is %(days)s days at most", days=length_max.days))
    if end > moment(SystemClock().wall_ms()):
        raise InvalidArgument(
            sentence("the window has not ended: what is still to come would be left out")
        )
    return _Wish(
        job=job,
        window_start=start,
        window_end=end,
        topics=_checked_topics(topics),
        parameters=_checked_parameters(parameters),
    )


def _checked_topics(topics: Sequence[str]) -> tuple[str, ...]:
    names = sorted(set(topics))
    if any("\0" in name for name in names):
        raise InvalidArgument(sentence("a topic's name has no null character"))
    if len(names) > TOPICS_MAX:
        raise InvalidArgument(
            sentence(
                "%(names)s topics are more than %(topics_max)s; none means all",
                names=len(names),
                topics_max=TOPICS_MAX,
            )
        )
    # What the lake has of a deleted topic can still be asked about.
    known = set(Topic.objects.filter(name__in=names).values_list("name", flat=True))
    for rows in (IngestPosition.objects, LakeFile.objects):
        if missing := set(names) - known:
            known |= set(rows.filter(topic__in=missing).values_list("topic", flat=True))
    if unknown := [name for name in names if name not in known]:
        raise UnknownTopic(
            sentence(
                "there is no topic %(unknown)s, and the lake has none",
                unknown=repr(unknown[0][:255]),
            )
        )
    return tuple(names)


def _checked_parameters(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    if len(parameters) > PARAMETERS_MAX:
        raise InvalidArgument(
            sentence(
                "there are %(parameters_max)s parameters at most", parameters_max=PARAMETERS_MAX
            )
        )
    for name, value in parameters.items():
        if not _PARAMETER_NAME.fullmatch(name):
            raise InvalidArgument(
                sentence("%(name)s is no name of a parameter", name=repr(name[:40]))
            )
        if not isinstance(value, str | int | float | bool):
            raise InvalidArgument(
                sentence("parameter %(name)s must be a text, a number or a truth value", name=name)
            )
        if len(str(value)) > PARAMETER_CHARACTERS_MAX:
            raise InvalidArgument(
                sentence(
                    "parameter %(name)s is longer than %(parameter_characters_max)s",
                    name=name,
                    parameter_characters_max=PARAMETER_CHARACTERS_MAX,
                )
            )
        # Neither has a place in the database's JSON.
        if (isinstance(value, float) and not math.isfinite(value)) or "\0" in str(value):
            raise InvalidArgument(
                sentence("parameter %(name)s is no value that can be kept", name=name)
            )
    return dict(parameters)
