"""GET /topics/{topic}/queues/{queue}/messages: read a queue from an offset. Translates only."""

from apps.access.policy import Action, group
from apps.doors.http import answers, messages, places, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.refusals import invalid
from apps.doors.http.shapes import (
    FENCE_MAX,
    FILTER_CHARACTERS_MAX,
    JSON_FETCH_MESSAGES_MAX,
    PullAnswer,
)
from apps.engine import limits
from apps.engine.codec import wire
from apps.engine.types import FilterType, PullRequest, PullResult, PullStatus

_RECORDS = wire.MEDIA_TYPE.encode()
PARAMETERS = frozenset(
    (
        "offset", "max", "max_bytes", "wait_ms", "filter", "filter_type",
        "group", "client_id", "epoch", "generation",
    )
)  # fmt: skip
MESSAGES_DEFAULT = 32
BYTES_DEFAULT = 4 * limits.MIB


async def pull(_door: Door, call: Call) -> Answer:
    """Answer a pull in binary or JSON; wait as long as it asks, or until its client leaves."""
    request = _request_of(call)
    if request.group:
        call.rights.require(group(request.group), Action.SUB)
    work = call.engine.pull(request)
    result = await (reading.unless_gone(work, call) if request.wait_ms else work)
    if reading.wants(call, _RECORDS):
        return 200, answers.RECORDS, wire.build_pull(result)
    # As JSON it is larger, and lies in memory until the last byte is taken.
    call.share.expect(len(result.block.payload))
    shown = messages.TagFilter(request.filter, request.filter_type)
    return answers.json(200, _answer_of(result, shown))


def _request_of(call: Call) -> PullRequest:
    query = reading.query_of(call, PARAMETERS)
    expression = query.get("filter", "*")
    if len(expression) > FILTER_CHARACTERS_MAX:
        raise invalid("?filter", f"longer than {FILTER_CHARACTERS_MAX} characters")
    group, client_id, epoch, generation = _member_of(query)
    messages_max = reading.number(
        query, "max", default=MESSAGES_DEFAULT, low=1, high=limits.FETCH_MESSAGES_MAX
    )
    if not reading.wants(call, _RECORDS):
        messages_max = min(messages_max, JSON_FETCH_MESSAGES_MAX)
    return PullRequest(
        topic=call.name,
        queue=call.queue,
        queue_offset=reading.number(query, "offset", default=None),
        messages_max=messages_max,
        bytes_max=reading.number(
            query, "max_bytes", default=BYTES_DEFAULT, low=1, high=limits.FETCH_BYTES_MAX
        ),
        wait_ms=reading.number(query, "wait_ms", default=0, high=limits.WAIT_MS_MAX),
        filter=expression,
        filter_type=_filter_type(query.get("filter_type")),
        group=group,
        client_id=client_id,
        epoch=epoch,
        generation=generation,
    )


def _filter_type(text: str | None) -> FilterType:
    if text is None:
        return FilterType.TAG
    try:
        return FilterType(text)
    except ValueError:
        raise invalid("?filter_type", f"must be one of {', '.join(FilterType)}") from None


def _member_of(query: dict[str, str]) -> tuple[str, str, int | None, int | None]:
    """Return the group, client id, epoch and generation a pull is made with.

    Without a group there is nothing they could be checked against, and ignoring a fence would
    pretend that there is one.
    """
    if "group" not in query:
        for name in ("client_id", "epoch", "generation"):
            if name in query:
                raise invalid(f"?{name}", "needs a group")
        return "", "", None, None
    group = places.group_at(query["group"], "?group")
    client_id = query.get("client_id", "")
    if len(client_id) > limits.CLIENT_ID_CHARACTERS_MAX:
        raise invalid("?client_id", f"longer than {limits.CLIENT_ID_CHARACTERS_MAX} characters")
    if "generation" in query and not client_id:
        raise invalid("?client_id", "required with generation")
    return group, client_id, _fence(query, "epoch"), _fence(query, "generation")


def _fence(query: dict[str, str], name: str) -> int | None:
    return None if name not in query else reading.number(query, name, default=0, high=FENCE_MAX)


def _answer_of(result: PullResult, tag_filter: messages.TagFilter) -> PullAnswer:
    found = [
        messages.message_of(record)
        for record in messages.records_of(result.block)
        if not tag_filter.is_collision(record)
    ]
    status = result.status
    if status is PullStatus.FOUND and not found:
        # Every message the engine found only shares a hash with the tags asked for.
        status = PullStatus.NO_MATCHED_MSG
    return PullAnswer(
        status=status,
        messages=found,
        next_offset=str(result.next_offset),
        min_offset=str(result.min_offset),
        max_offset=str(result.max_offset),
        unreadable=result.unreadable,
    )
