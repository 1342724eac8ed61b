"""Receipt handles, grouped into runs and taken apart again. Knows messages and text only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mqclient.errors import HandleExpired, InvalidArgument, InvalidHandle, ProtocolViolation
from mqclient.values import Settled, Settlement
from mqclient.wire.records import Lease, Message


@dataclass(frozen=True, slots=True)
class Run:
    """Messages of one lease that follow each other in it; one handle names them all."""

    handle: str
    messages: list[Message]


def runs_of(messages: Message | Iterable[Message]) -> list[Run]:
    """Group messages into the fewest handles; raise InvalidArgument for a pulled message."""
    if isinstance(messages, Message):
        messages = (messages,)
    by_lease: dict[int, tuple[Lease, dict[int, Message]]] = {}
    for message in messages:
        lease = message.lease
        if lease is None:
            raise InvalidArgument(f"{message!r} was pulled, not received: it has no handle")
        by_lease.setdefault(id(lease), (lease, {}))[1][message.queue_offset] = message
    return [run for lease, chosen in by_lease.values() for run in _runs_of_lease(lease, chosen)]


def _runs_of_lease(lease: Lease, chosen: dict[int, Message]) -> Iterable[Run]:
    # A run may span offsets that are not of the lease: those were filtered out, or settled.
    run: list[Message] = []
    for queue_offset in lease.queue_offsets:
        message = chosen.get(queue_offset)
        if message is not None:
            run.append(message)
        elif run:
            yield Run(_handle(lease.token, run), run)
            run = []
    if run:
        yield Run(_handle(lease.token, run), run)


def _handle(token: str, run: Sequence[Message]) -> str:
    first, last = run[0].queue_offset, run[-1].queue_offset
    return f"{token}:{first}" if first == last else f"{token}:{first}-{last}"


def check_settled(runs: Sequence[Run], results: Sequence[Settlement], verb: str) -> None:
    """Raise HandleExpired or InvalidHandle when a run was not settled; the others were."""
    if len(results) != len(runs):
        raise ProtocolViolation(f"{len(runs)} handles were sent, {len(results)} answered")
    bad = [
        (runs[result.index], result.status) for result in results if result.status is not Settled.OK
    ]
    if not bad:
        return
    count = sum(len(run.messages) for run, _ in bad)
    is_expired = any(status is Settled.EXPIRED for _, status in bad)
    kind = HandleExpired if is_expired else InvalidHandle
    reason = "their time is over" if is_expired else "their handles are not of this group"
    raise kind(f"{verb}: {count} messages were not settled, {reason}: {bad[0][0].messages[0]!r}")


def take_new_handles(runs: Sequence[Run], results: Sequence[Settlement]) -> None:
    """Give the messages of extended runs their new lease.

    Until when that lasts is the broker's to know: the answer does not say it.
    """
    for result in results:
        if result.status is not Settled.OK or not result.receipt_handle:
            continue
        run = runs[result.index]
        old = run.messages[0].lease
        attempt = 1 if old is None else old.attempt
        token = result.receipt_handle.rpartition(":")[0]
        offsets = [message.queue_offset for message in run.messages]
        lease = Lease(token, attempt, None, offsets)
        for message in run.messages:
            message.lease = lease
