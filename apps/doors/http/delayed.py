"""DELETE /delayed/{recall_handle} and POST :deliver-now: take a delay back. Translates only."""

from apps.access.policy import Action, topic
from apps.doors.http import answers, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door, settled
from apps.doors.http.careshapes import RecallAnswer
from apps.doors.http.refusals import Refusal
from apps.doors.http.rights import EVERYTHING, topic_in
from apps.doors.http.shapes import empty_decoder
from apps.engine.delaytypes import Recall


async def recall(_door: Door, call: Call) -> Answer:
    """Cancel a delayed message, for good when the answer is 200."""
    await reading.nothing_of(call, empty_decoder)
    _require(call)
    outcome = await settled(call.engine.recall(call.token)) if call.token else Recall.UNKNOWN
    return _answered(outcome, wanted=Recall.CANCELLED)


async def deliver_now(_door: Door, call: Call) -> Answer:
    """Deliver a delayed message before its time; it is in its queue when the answer is 200."""
    await reading.nothing_of(call, empty_decoder)
    _require(call)
    outcome = await settled(call.engine.deliver_now(call.token)) if call.token else Recall.UNKNOWN
    return _answered(outcome, wanted=Recall.DELIVERED)


def _require(call: Call) -> None:
    """Raise Denied unless the caller may send to the handle's topic, or decide for who does."""
    if call.rights is EVERYTHING:
        return
    name = topic_in(call.token)
    if name is None:
        raise _unknown()
    call.rights.require(topic(name), Action.PUB, Action.DECIDE)


def _unknown() -> Refusal:
    return Refusal("unknown_handle", "nothing is known of a message of this handle")


def _answered(outcome: Recall, *, wanted: Recall) -> Answer:
    if outcome is wanted:
        return answers.json(200, RecallAnswer(outcome))
    if outcome is Recall.DELIVERED:
        raise Refusal("already_delivered", "the message was delivered before")
    if outcome is Recall.CANCELLED:
        raise Refusal("already_cancelled", "the message was cancelled before")
    raise _unknown()
