"""The fake engine's verbs of operators: what is asked is kept, what the test put in is answered."""

from collections.abc import Sequence

from apps.engine.caretypes import (
    CareRequest,
    CareResult,
    QueueWasReset,
    ResetRequest,
    ResetResult,
    WhatIf,
    WhatIfRequest,
)
from apps.engine.errors import EngineError, OffsetsMoved
from apps.engine.grouptypes import QueuePlace
from apps.engine.types import Strategy


class FakeOperators:
    """Acts about queues; `at` has where each group is in each queue that is reset."""

    def __init__(self) -> None:
        self.attended: list[CareRequest] = []
        self.resets: list[ResetRequest] = []
        self.at: dict[tuple[str, str, int], int] = {}
        self.answered: dict[str, ResetResult] = {}
        self.times: dict[tuple[str, int], int] = {}
        """By queue, the offset of every time that is asked for."""
        self.imagined = WhatIf(
            strategy=Strategy.AVG, assignment={}, before={}, added=(), idle=(), queues_moved=0
        )
        self.what_ifs: list[WhatIfRequest] = []
        self.operator_refusal: EngineError | None = None
        """Raised by every verb here while it is set."""

    def attend(self, request: CareRequest) -> CareResult:
        self._refuse_operator()
        is_repeat = request in self.attended
        self.attended.append(request)
        return CareResult(
            act=request.act,
            group=request.group,
            topic=request.topic,
            queue=request.queue,
            head=(request.expected_offset or 0) + 1,
            is_repeat=is_repeat,
        )

    def reset_offsets(self, request: ResetRequest) -> ResetResult:
        self._refuse_operator()
        if request.reset_id in self.answered:
            return self.answered[request.reset_id]
        self.resets.append(request)
        before = [self.at.get((request.group, one.topic, one.queue), 0) for one in request.queues]
        for one, now in zip(request.queues, before, strict=True):
            if not one.expected_min <= now <= one.expected_max:
                raise OffsetsMoved(f"{one.topic}/{one.queue} is at {now}")
        result = ResetResult(
            queues=tuple(
                QueueWasReset(topic=one.topic, queue=one.queue, before=was, after=one.target)
                for one, was in zip(request.queues, before, strict=True)
            )
        )
        for one in request.queues:
            self.at[request.group, one.topic, one.queue] = one.target
        self.answered[request.reset_id] = result
        return result

    def offsets_at(self, places: Sequence[QueuePlace], time_ms: int) -> list[int]:
        self._refuse_operator()
        return [self.times.get((place.topic, place.queue), 0) for place in places]

    def what_if(self, request: WhatIfRequest) -> WhatIf:
        self._refuse_operator()
        self.what_ifs.append(request)
        return self.imagined

    def _refuse_operator(self) -> None:
        if self.operator_refusal is not None:
            raise self.operator_refusal
