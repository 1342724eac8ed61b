"""GET /topics/{topic}/queues/{queue}/messages: read a queue from an offset. Translates only."""

from apps.doors.http import answers, messages, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.refusals import invalid
from apps.doors.http.shapes import FILTER_CHARACTERS_MAX, JSON_FETCH_MESSAGES_MAX, PullAnswer
from apps.engine import limits
from apps.engine.codec import wire
from apps.engine.types import PullRequest, PullResult, PullStatus

_RECORDS = wire.MEDIA_TYPE.encode()
_PARAMETERS = ("offset", "max", "max_bytes", "wait_ms", "filter")
MESSAGES_DEFAULT = 32
BYTES_DEFAULT = 4 * limits.MIB


async def pull(_door: Door, call: Call) -> Answer:
    """Answer a pull in binary or JSON; wait as long as it asks, or until its client leaves."""
    request = _request_of(call)
    work = call.engine.pull(request)
    result = await (reading.unless_gone(work, call.receive) if request.wait_ms else work)
    if reading.wants(call, _RECORDS):
        return 200, answers.RECORDS, wire.build_pull(result)
    return answers.json(200, _answer_of(result, messages.TagFilter(request.filter)))


def _request_of(call: Call) -> PullRequest:
    query = reading.query_of(call, _PARAMETERS)
    tags = query.get("filter", "*")
    if len(tags) > FILTER_CHARACTERS_MAX:
        raise invalid("?filter", f"longer than {FILTER_CHARACTERS_MAX} characters")
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
        filter=tags,
    )


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
    )
