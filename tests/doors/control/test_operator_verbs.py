"""Verbs of operators, asked from another process: what is asked and answered arrives."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from apps.bridge.remote import RemoteEngine
from apps.engine.api import EngineControl
from apps.engine.caretypes import (
    CareAct,
    CareRequest,
    CareResult,
    QueueReset,
    QueueWasReset,
    ResetRequest,
    ResetResult,
    Suspension,
    WhatIf,
    WhatIfRequest,
)
from apps.engine.errors import EngineError, HeadMoved, NotOrdered, OffsetsMoved
from apps.engine.grouptypes import QueuePlace
from apps.engine.types import Strategy
from tests.doors.control.serving import Answering, Served

CARE = CareRequest(
    act=CareAct.PARK, group="g", topic="orders", queue=3, expected_offset=2**40, by="ä", reason="ü"
)
DONE = CareResult(
    act=CareAct.PARK,
    group="g",
    topic="orders",
    queue=3,
    head=2**40 + 1,
    is_repeat=True,
    suspension=Suspension(at_ms=1_700_000_000_000, by="ann", reason="a look"),
    dead_letter_offset=2**33,
)
RESET = ResetRequest(
    group="g",
    reset_id="r",
    queues=(QueueReset(topic="t", queue=0, target=1, expected_min=2, expected_max=2**40),),
)
WAS_RESET = ResetResult(queues=(QueueWasReset(topic="t", queue=0, before=2**40, after=1),))
PLACES = [QueuePlace(topic="t", queue=0), QueuePlace(topic="t", queue=1)]
WHAT_IF = WhatIfRequest(group="g", strategy=Strategy.AVG, member_count=3)
IMAGINED = WhatIf(
    strategy=Strategy.AVG,
    assignment={"a": {"t": (0, 1)}, "~1": {}},
    before={"a": {}},
    added=("~1",),
    idle=("~1",),
    queues_moved=2,
)

Question = Callable[[EngineControl], object]
VERBS: list[tuple[str, Question, Any, object]] = [
    ("attend", lambda engine: engine.attend(CARE), (CARE,), DONE),
    ("reset_offsets", lambda engine: engine.reset_offsets(RESET), (RESET,), WAS_RESET),
    ("offsets_at", lambda engine: engine.offsets_at(PLACES, 7), (PLACES, 7), [2**40, 0]),
    ("what_if", lambda engine: engine.what_if(WHAT_IF), (WHAT_IF,), IMAGINED),
]


@pytest.mark.parametrize(("verb", "question", "asked", "answer"), VERBS, ids=lambda x: str(x)[:20])
@pytest.mark.parametrize("is_later", [False, True])
async def test_a_verb_is_asked_and_answered_as_in_one_process(
    served: Served,
    remote: RemoteEngine,
    verb: str,
    question: Question,
    asked: Any,
    answer: object,
    is_later: bool,
) -> None:
    engine = Answering(verb, answer, is_later=is_later)
    served.engine = engine  # type: ignore[assignment]

    found = await asyncio.to_thread(question, remote)

    assert engine.asked == [(asked, {})]
    assert found == answer


@pytest.mark.parametrize("kind", [HeadMoved, NotOrdered, OffsetsMoved])
async def test_a_refusal_arrives_as_what_it_is(
    served: Served, remote: RemoteEngine, kind: type[EngineError]
) -> None:
    served.engine = Answering("attend", kind("it is 4, not 3"))  # type: ignore[assignment]

    with pytest.raises(kind, match="it is 4, not 3"):
        await asyncio.to_thread(remote.attend, CARE)
