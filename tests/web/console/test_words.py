"""Words of programs on pages: none is without its own, and what is not known stays as it is."""

import pytest
from django.utils import translation

from apps.alerts import words as alert_words
from apps.alerts.judging import State as AlertState
from apps.alerts.kinds import KINDS, Severity
from apps.audit.acts import ACTS
from apps.audit.models import Result
from apps.audit.words import ACT_WORDS
from apps.clockwork.models import Outcome
from apps.console import engine_words, locks, refusals, state_words, stored_words
from apps.console.clockwork import _OUTCOME_WORDS, _STATE_WORDS
from apps.console.clockwork import State as ClockworkState
from apps.console.levels import TREND_WORDS, Trend
from apps.console.pipelines import words as pipeline_words
from apps.core import problems
from apps.core.exceptions import ProblemError
from apps.core.languages import Language
from apps.core.phrases import Phrase, sentence
from apps.deadletters.models import JobState
from apps.deadletters.models.letters import State as LetterState
from apps.engine.errors import Overloaded, UnknownTopic
from apps.engine.grouptypes import LockChange
from apps.groups.models.resets import ResetState
from apps.pipelines.catalogue import JOBS
from apps.pipelines.models import RunState, Trigger
from mqweb import envalerts


def test_every_code_of_a_problem_has_a_title_of_ours() -> None:
    titles = {code: str(title) for code, title in refusals.TITLES.items()}

    assert titles == {code: kind.title for code, kind in problems.KINDS.items()}


def test_every_act_that_is_written_down_has_a_name() -> None:
    assert {name: word.english for name, word in ACT_WORDS.items()} == {name: name for name in ACTS}  # type: ignore[union-attr]


def test_every_state_that_rows_have_has_a_word() -> None:
    states = {
        *LetterState.values,
        *JobState.values,
        *ResetState.values,
        *(state.value for state in AlertState),
        *(severity.value for severity in Severity),
        *Result.values,
        *(trend.value for trend in Trend),
        *(hold.value for hold in locks.Hold),
    }

    assert {state for state in states if not isinstance(state_words.state(state), Phrase)} == set()


def test_every_state_of_the_picture_has_a_word() -> None:
    assert set(_STATE_WORDS) == set(ClockworkState)
    assert set(Outcome.values) <= set(_OUTCOME_WORDS)
    assert set(TREND_WORDS) == {*Trend, None}
    assert set(locks.HOLD_WORDS) == set(locks.Hold)
    for change in LockChange:
        assert isinstance(engine_words.change(change.value), Phrase)
    for state in RunState.values:
        assert isinstance(pipeline_words.state(state), Phrase)
    for trigger in Trigger.values:
        assert isinstance(pipeline_words.trigger(trigger), Phrase)


def test_every_job_says_on_pages_what_the_api_says_of_it() -> None:
    assert {name: str(pipeline_words.meaning(job)) for name, job in JOBS.items()} == {
        name: job.meaning for name, job in JOBS.items()
    }
    assert all(isinstance(pipeline_words.meaning(job), Phrase) for job in JOBS.values())


def test_every_unit_and_severity_of_alerts_has_a_word() -> None:
    units = {about.unit for about in KINDS.values()} - {"%"}

    assert all(isinstance(alert_words.unit(unit), Phrase) for unit in units)
    assert all(isinstance(alert_words.severity(one.value), Phrase) for one in Severity)


def test_alerts_can_be_told_in_every_language() -> None:
    assert set(envalerts.LANGUAGES) == {language.value for language in Language}


@pytest.mark.parametrize(
    ("stored", "chinese"),
    [
        ("the channel is disabled", "渠道已停用"),
        ("answered 503", "响应状态 503"),
        ("shift -12", "移动 -12"),
        ("offset 7 %(count)s", "offset 7 %(count)s"),
        ("ConnectionError: gone", "ConnectionError: gone"),
        ("copy from %RETRY%billing", "复制自 %RETRY%billing"),
    ],
)
def test_what_rows_hold_is_put_into_words_where_it_is_known(stored: str, chinese: str) -> None:
    with translation.override("zh-hans"):
        assert str(stored_words.stored(stored)) == chinese


@pytest.mark.parametrize(
    ("said", "chinese"),
    [
        ("message 12 was parked", "消息 12 已被搁置"),
        ("join", "成员加入"),
        ("stuck since noon", "stuck since noon"),
        ("message x was parked", "message x was parked"),
    ],
)
def test_why_a_lock_changed_is_put_into_words_but_for_what_people_wrote(
    said: str, chinese: str
) -> None:
    with translation.override("zh-hans"):
        assert str(engine_words.reason(said)) == chinese


def test_a_refusal_of_ours_is_a_sentence_in_the_viewers_language() -> None:
    error = ProblemError("conflict", sentence("nobody is signed in"))

    assert refusals.not_done(error) == "Nothing was done: nobody is signed in."
    with translation.override("zh-hans"):
        assert refusals.sentence_of(error) == "没有登录。"


def test_a_refusal_of_the_engine_has_its_title_before_it_elsewhere() -> None:
    error = UnknownTopic("topic 'a' is not there")

    assert refusals.refusal_text(error) == "Topic 'a' is not there."
    with translation.override("zh-hans"):
        assert refusals.refusal_text(error) == "主题不存在 (topic 'a' is not there)。"


def test_who_may_ask_again_is_told_so() -> None:
    error = Overloaded("too much waits")

    assert refusals.refusal_text(error) == (
        "Too much waits. It may have been done or not; to ask for the same again is safe."
    )
