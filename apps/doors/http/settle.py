"""What a group says of messages it was handed: ack, nack, extend; and its offset commits."""

import re
from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from apps.doors.http import answers, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.refusals import Refusal, invalid
from apps.doors.http.routing import name_rule
from apps.doors.http.shapes import (
    CommitItem,
    Problem,
    SettleAnswer,
    SettleItem,
    ack_decoder,
    commit_decoder,
    extend_decoder,
    nack_decoder,
)
from apps.engine import limits
from apps.engine.errors import HandleExpired, InvalidHandle, InvalidName
from apps.engine.types import OffsetCommit, Settled, SettleResult

_OFFSET = re.compile(r"[0-9]{1,19}")


async def ack(door: Door, call: Call) -> Answer:
    """Settle messages for good."""
    body = await reading.json_of(call, ack_decoder, door.settings.request_bytes_max)
    return _answer_of(call, await call.engine.ack(call.name, body.receipt_handles))


async def nack(door: Door, call: Call) -> Answer:
    """Give messages back."""
    body = await reading.json_of(call, nack_decoder, door.settings.request_bytes_max)
    results = await call.engine.nack(
        call.name, body.receipt_handles, delay_ms=body.delay_ms, reason=body.reason
    )
    return _answer_of(call, results)


async def extend(door: Door, call: Call) -> Answer:
    """Hide messages for longer; the answer has their new handles."""
    body = await reading.json_of(call, extend_decoder, door.settings.request_bytes_max)
    results = await call.engine.extend(
        call.name, body.receipt_handles, invisible_ms=body.invisible_ms
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


async def commit(door: Door, call: Call) -> Answer:
    """Set a group's progress, all queues of the request or none."""
    body = await reading.json_of(call, commit_decoder, door.settings.request_bytes_max)
    commits = [_commit_of(index, item) for index, item in enumerate(body.offsets)]
    await call.engine.commit_offsets(call.name, commits)
    return answers.empty(204)


def _commit_of(index: int, item: CommitItem) -> OffsetCommit:
    pointer = f"/offsets/{index}"
    if item.epoch is not None:
        # An epoch asks for a fence. Ignoring it would pretend that there is one.
        detail = "queue locks do not exist in this version"
        errors = ({"pointer": f"{pointer}/epoch", "detail": detail},)
        raise Refusal("unsupported", detail, errors=errors)
    if limits.NAME_PATTERN.fullmatch(item.topic) is None:
        raise InvalidName(name_rule("topic"))
    if isinstance(item.offset, str) and _OFFSET.fullmatch(item.offset) is None:
        raise invalid(f"{pointer}/offset", "must be a decimal number")
    queue_offset = int(item.offset)
    if queue_offset > reading.LONG_MAX:
        raise invalid(f"{pointer}/offset", "must fit 64 bits")
    return OffsetCommit(topic=item.topic, queue=item.queue, queue_offset=queue_offset)
