"""What a group says of messages it was handed: ack, nack, extend. Translates only."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from apps.doors.http import answers, reading, sendback
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.shapes import (
    Problem,
    SettleAnswer,
    SettleItem,
    ack_decoder,
    extend_decoder,
    nack_decoder,
)
from apps.engine.errors import HandleExpired, InvalidHandle
from apps.engine.types import Settled, SettleResult


async def ack(door: Door, call: Call) -> Answer:
    """Settle messages for good."""
    body = await reading.json_of(call, ack_decoder, door.settings.request_bytes_max)
    results = await call.engine.ack(call.name, body.receipt_handles, epoch=body.epoch)
    return _answer_of(call, results)


async def nack(door: Door, call: Call) -> Answer:
    """Give messages back."""
    body = await reading.json_of(call, nack_decoder, door.settings.request_bytes_max)
    results = await call.engine.nack(
        call.name,
        body.receipt_handles,
        delay_ms=body.delay_ms,
        delay_level=sendback.retry_level(body.delay_level, body.delay_ms),
        reason=body.reason,
        epoch=body.epoch,
    )
    return _answer_of(call, results)


async def extend(door: Door, call: Call) -> Answer:
    """Hide messages for longer; the answer has their new handles."""
    body = await reading.json_of(call, extend_decoder, door.settings.request_bytes_max)
    results = await call.engine.extend(
        call.name, body.receipt_handles, invisible_ms=body.invisible_ms, epoch=body.epoch
    )
    return _answer_of(call, results)


def _answer_of(call: Call, results: Sequence[SettleResult]) -> Answer:
    items = [_item(index, result, call) for index, result in enumerate(results)]
    is_all_ok = all(result.outcome is Settled.OK for result in results)
    return answers.json(200 if is_all_ok else 207, SettleAnswer(items))


def _item(index: int, result: SettleResult, call: Call) -> SettleItem:
    if result.outcome is Settled.OK:
        return SettleItem(index, result.outcome, receipt_handle=result.handle or UNSET)
    error = (
        HandleExpired("the time of the receipt handle is over")
        if result.outcome is Settled.EXPIRED
        else InvalidHandle("the receipt handle was not issued here for this group")
    )
    document = msgspec.convert(answers.problem_of(error, call.request_id), Problem)
    return SettleItem(index, result.outcome, problem=document)
