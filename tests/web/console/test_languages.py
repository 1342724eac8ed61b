"""The live picture in several languages: built once, and put into words for those who read them."""

import asyncio
import json
import zlib
from collections import Counter
from typing import Any

import pytest
from django.utils import translation

from apps.console import audience as audiences
from apps.console import frames, travel
from apps.console.audience import audience
from apps.console.board import board
from apps.console.feed import Feed
from apps.console.relay import Incoming, Outgoing
from apps.console.snapshot import Snapshot
from apps.core.languages import Language
from apps.core.phrases import Phrase, Sentence
from apps.engine.grouptypes import QueueBacklog
from tests.web.console.fakes import FakeEngine, HandClock, Viewer, settle
from tests.web.console.texts import worded

CHINESE = "zh-CN,zh;q=0.9"
ENGLISH = "en"


async def beat(feed: Feed, engine: FakeEngine) -> Snapshot:
    """Do what feed and relay do once a second."""
    posted = feed.sample(engine.api)
    board.put(posted)
    outgoing, incoming = Outgoing(), Incoming()
    receiving = asyncio.create_task(incoming.step())
    await settle()
    await outgoing.put(posted.snapshot)
    await outgoing.step()
    await receiving
    return posted.snapshot


def fall_behind(engine: FakeEngine, number: int) -> None:
    """Have the head of a queue fail more often, so that the texts of the picture change."""
    engine.left = [
        QueueBacklog(
            group="billing", topic="orders", queue=0, committed=number, delivered=number + 1,
            max_offset=9_000, in_flight=1, oldest_age_ms=5_000, stalled_ms=61_000,
            head_attempts=3 + number, owner="till-1", lock_epoch=None, lock_expires_in_ms=None,
        )
    ]  # fmt: skip


@pytest.fixture
def engine() -> FakeEngine:
    found = FakeEngine()
    found.add_topic("orders", queue_count=2)
    return found


def texts_of(value: Any) -> list[object]:
    """Return every text of a picture, and what is not one yet."""
    if isinstance(value, dict):
        return [text for below in value.values() for text in texts_of(below)]
    if isinstance(value, list | tuple):
        return [text for below in value for text in texts_of(below)]
    return [value] if isinstance(value, str | Phrase) else []


async def test_two_viewers_read_the_same_picture_each_in_its_language(
    feed: Feed, engine: FakeEngine
) -> None:
    fall_behind(engine, 1)
    await beat(feed, engine)
    one, other = Viewer("locks", reads=ENGLISH), Viewer("locks", reads=CHINESE)
    await one.arrive()
    await other.arrive()

    english, chinese = await one.frame(), await other.frame()
    await one.leave()
    await other.leave()

    (row,), (its,) = english["rows"], chinese["rows"]
    assert row["trouble"].startswith("Blocked at offset 1: tried 4 times without success")
    assert its["trouble"].startswith("阻塞于位点 1")
    assert (row["hold_said"], its["hold_said"]) == ("assigned", "已分配")
    assert {name for name in row if row[name] != its[name]} == {
        "trouble",
        "seen_trouble",
        "hold_said",
    }
    assert english["version"] == chinese["version"]


async def test_deltas_of_languages_never_mix(feed: Feed, engine: FakeEngine) -> None:
    viewers = {reads: Viewer("locks", reads=reads) for reads in (ENGLISH, CHINESE)}
    for viewer in viewers.values():
        await viewer.arrive()
    for number in range(6):
        fall_behind(engine, number)
        await beat(feed, engine)
        shown = {reads: await viewer.frame() for reads, viewer in viewers.items()}
    newcomers = {reads: Viewer("locks", reads=reads) for reads in viewers}
    whole = {}
    for reads, newcomer in newcomers.items():
        await newcomer.arrive()
        whole[reads] = await newcomer.frame()
    for viewer in (*viewers.values(), *newcomers.values()):
        await viewer.leave()

    for reads in viewers:
        assert (shown[reads].pop("kind"), whole[reads].pop("kind")) == ("delta", "whole")
    assert shown == whole
    assert "阻塞" in shown[CHINESE]["rows"][0]["trouble"]
    assert shown[ENGLISH]["rows"][0]["trouble"].isascii()


async def test_a_third_viewer_of_a_language_that_is_read_adds_no_work(
    feed: Feed, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Counter[str] = Counter()

    def counted(name: str, function: Any) -> Any:
        def counting(*args: Any) -> Any:
            made[f"{name} {args[-1].value}" if name == "text" else name] += 1
            return function(*args)

        return counting

    monkeypatch.setattr(frames, "_text", counted("text", frames._text))
    monkeypatch.setattr(audiences, "state_of", counted("state", audiences.state_of))
    monkeypatch.setattr(audiences, "delta_of", counted("delta", audiences.delta_of))
    viewers = [Viewer("locks", reads=reads) for reads in (ENGLISH, CHINESE, CHINESE)]
    for viewer in viewers:
        await viewer.arrive()
    for number in range(3):
        fall_behind(engine, number)
        await beat(feed, engine)
        for viewer in viewers:
            await viewer.frame()
    for viewer in viewers:
        await viewer.leave()

    # What is shown and what has changed of it is found once, whoever reads it in whatever language.
    assert made == {"text en": 3, "text zh-hans": 3, "state": 3, "delta": 2}


async def test_a_language_that_nobody_reads_any_more_costs_nothing(
    feed: Feed, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays, goes = Viewer("locks", reads=ENGLISH), Viewer("locks", reads=CHINESE)
    await stays.arrive()
    await goes.arrive()
    await beat(feed, engine)
    await stays.frame()
    await goes.frame()
    read = []
    text_of = frames._text

    def listed(frame: dict[str, Any], language: Language) -> str:
        read.append(language)
        return text_of(frame, language)

    monkeypatch.setattr(frames, "_text", listed)

    await goes.leave()
    await beat(feed, engine)
    await stays.frame()
    (channel,) = audience._channels.values()
    languages = list(channel.languages)
    await stays.leave()

    assert languages == [Language.ENGLISH]
    assert read == [Language.ENGLISH]


async def test_what_was_cut_for_one_language_is_whole_for_another(
    feed: Feed, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fall_behind(engine, 1)
    await beat(feed, engine)
    lengths = {}
    for reads in (ENGLISH, CHINESE):
        viewer = Viewer("locks", reads=reads)
        await viewer.arrive()
        lengths[reads] = len(await viewer.text())
        await viewer.leave()
    assert lengths[CHINESE] < lengths[ENGLISH]
    monkeypatch.setattr(frames, "FRAME_CHARACTERS_MAX", lengths[ENGLISH] - 1)

    one, other = Viewer("locks", reads=ENGLISH), Viewer("locks", reads=CHINESE)
    await one.arrive()
    await other.arrive()
    first = (await one.frame())["known"], (await other.frame())["known"]
    await beat(feed, engine)
    second = json.loads(await one.text()), json.loads(await other.text())
    await one.leave()
    await other.leave()

    assert first == ("still", "live")
    # Who has nothing cannot carry out what has changed of it.
    assert [frame["kind"] for frame in second] == ["whole", "delta"]


@pytest.mark.parametrize("language", [language.value for language in Language])
def test_a_picture_is_the_same_whatever_language_is_active_when_it_is_built(
    language: str, clock: HandClock, engine: FakeEngine, feed: Feed
) -> None:
    fall_behind(engine, 1)
    clock.now_ms += 1
    with translation.override(language):
        found = feed.sample(engine.api).snapshot

    texts = texts_of(found)
    assert any(isinstance(text, Phrase) for text in texts)
    assert [text for text in texts if isinstance(text, str) and not text.isascii()] == []
    # An English sentence that knows its phrase would stay English for everybody.
    assert [text for text in texts if isinstance(text, Sentence)] == []


def test_what_travels_to_another_process_is_read_there_in_every_language(
    engine: FakeEngine, feed: Feed
) -> None:
    fall_behind(engine, 1)
    found = feed.sample(engine.api).snapshot

    with translation.override("zh-hans"):
        parts = travel.packed(found)
    arrived = travel.unpacked(parts)

    assert arrived["locks"]["rows"][0]["trouble"] == found["locks"]["rows"][0]["trouble"]
    for language in Language:
        assert worded(arrived["locks"], language.value) == worded(found["locks"], language.value)
    assert all("阻塞".encode() not in zlib.decompress(part) for part in parts)
