"""What a preview of a reset promises, as a text its caller brings back. Knows signing, no row.

It is signed, so what is applied is what was shown; and it is good for an hour, since nobody still
looks at a preview that old.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.core import signing

from apps.core.phrases import sentence
from apps.engine.errors import InvalidArgument
from apps.groups.targets import PlannedQueue

_SALT = "mqweb offsets preview, version 1"
GOOD_FOR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A reset that was shown to somebody; `moved_max` is how far the group may read on."""

    group: str
    reset_id: str
    target: str
    moved_max: int
    queues: Sequence[PlannedQueue]


def written(promise: Promise) -> str:
    """Return the token of a promise."""
    rows = [[one.topic, one.queue, one.current, one.target] for one in promise.queues]
    content = [promise.group, promise.reset_id, promise.target, promise.moved_max, rows]
    return signing.dumps(content, salt=_SALT, compress=True)


def read(token: str) -> Promise:
    """Return what a token promises; raise InvalidArgument for any other text, and an old one."""
    try:
        content = signing.loads(token, salt=_SALT, max_age=GOOD_FOR)
    except signing.SignatureExpired as error:
        raise InvalidArgument(
            sentence("the preview is older than an hour: make another one")
        ) from error
    except signing.BadSignature as error:
        raise InvalidArgument(
            sentence("the token is not that of a preview of this server")
        ) from error
    group, reset_id, target, moved_max, rows = content
    return Promise(
        group=group,
        reset_id=reset_id,
        target=target,
        moved_max=moved_max,
        queues=[
            PlannedQueue(topic=topic, queue=queue, current=current, target=wanted)
            for topic, queue, current, wanted in rows
        ],
    )
