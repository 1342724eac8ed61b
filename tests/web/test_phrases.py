"""Phrases: English for programs, the viewer's language on pages, and plural forms of both."""

import copy
import json
import pickle

import msgspec
import pytest
from django.utils import translation
from django.utils.translation import gettext_lazy

from apps.access.policy.reasons import because
from apps.core import phrases
from apps.core.phrases import phrase, phrase_in, read, sentence, told
from apps.core.queries import RefusedValue
from apps.engine.errors import InvalidArgument, UnknownTopic


@pytest.mark.parametrize(
    ("count", "english", "chinese"),
    [
        (0, "and 0 more groups", "另有 0 个消费者组"),
        (1, "and 1 more group", "另有 1 个消费者组"),
        (2, "and 2 more groups", "另有 2 个消费者组"),
    ],
)
def test_a_number_takes_its_plural_form_in_each_language(
    count: int, english: str, chinese: str
) -> None:
    found = phrases.phrases("and %(count)s more group", "and %(count)s more groups", count)

    with translation.override("en"):
        assert str(found) == found.english == english
    with translation.override("zh-hans"):
        assert (str(found), found.english) == (chinese, english)


def test_what_fills_a_gap_is_put_into_words_as_well() -> None:
    found = phrase("%(what)s.", what=phrase("Blocked at offset %(offset)s", offset=3))

    with translation.override("zh-hans"):
        assert str(found) == "阻塞于位点 3。"


def test_a_word_of_two_meanings_is_told_apart_by_its_context() -> None:
    with translation.override("zh-hans"):
        assert str(phrase_in("lock", "free")) == "空闲"
        assert str(phrase_in("nowhere", "free")) == "free"


def test_signs_in_values_are_no_gaps() -> None:
    found = phrase("%(what)s: %(reason)s", what="100 %(offset)s", reason="%d %%")

    assert str(found) == "100 %(offset)s: %d %%"


def test_phrases_and_lazy_texts_become_text_in_json() -> None:
    value = {
        "note": phrase("not read yet"),
        "why": gettext_lazy("nobody consumes"),
    }

    with translation.override("zh-hans"):
        packed = msgspec.json.encode(value, enc_hook=phrases.as_text)
        dumped = json.dumps(value, default=phrases.as_text)

    assert json.loads(packed) == json.loads(dumped)
    assert json.loads(packed) == {"note": "尚未读取", "why": "无人消费"}


def test_what_is_no_text_is_still_refused_by_json() -> None:
    with pytest.raises(TypeError):
        msgspec.json.encode({"clock": object()}, enc_hook=phrases.as_text)


def test_a_phrase_comes_back_from_its_journey() -> None:
    found = {
        "rows": [{"a": phrase("%(what)s.", what=phrase_in("lock", "held")), "b": None}],
        "many": phrases.phrases("%(count)s member", "%(count)s members", 2),
    }

    packed = msgspec.json.encode(found, enc_hook=phrases.as_luggage)

    assert phrases.unpacked(msgspec.json.decode(packed)) == found


def test_a_refusal_is_english_for_programs_and_told_in_the_viewers_language() -> None:
    error = InvalidArgument(sentence("a threshold is more than 0"))

    with translation.override("zh-hans"):
        assert str(error) == "a threshold is more than 0"
        assert f"{error}" == error.args[0] == "a threshold is more than 0"
        assert told(error) == "阈值必须大于 0"


def test_what_the_engine_says_stays_as_it_is() -> None:
    with translation.override("zh-hans"):
        assert told(UnknownTopic("topic 'a' is not there")) == "topic 'a' is not there"


def test_a_value_that_is_refused_keeps_its_english_for_the_api() -> None:
    error = RefusedValue("limit", sentence("must be one of %(known)s", known="a, b"))

    with translation.override("zh-hans"):
        assert error.detail == {"limit": ["must be one of a, b"]}
        assert error.why == "必须是 a, b 之一"


def test_a_missing_right_says_why_in_the_viewers_language() -> None:
    reason = because("nobody is signed in")

    with translation.override("zh-hans"):
        assert (str(reason), read(reason)) == ("nobody is signed in", "没有登录")


def test_copies_keep_what_they_know() -> None:
    said = sentence("there is no topic %(name)s", name="a")
    reason = because(
        "%(name)s has no right to %(action)s %(resource)s", name="a", action="b", resource="c"
    )

    for found in (copy.deepcopy(said), pickle.loads(pickle.dumps(said))):
        assert (found, found.phrase) == (said, said.phrase)
    for other in (copy.deepcopy(reason), pickle.loads(pickle.dumps(reason))):
        assert (other, other.template, other.values) == (reason, reason.template, reason.values)
