"""`mq group`: care of a blocked queue, and where a group goes on. Knows the admin face."""

import argparse
import sys

from mqclient.admin import Admin
from mqclient.errors import InvalidArgument
from mqclient.values import OffsetsReset, QueueCare

# Arguments, as they are typed, and what a preview calls them.
_TARGETS = ("earliest", "latest", "time", "offset", "shift", "copy_from")


def suspend(arguments: argparse.Namespace) -> None:
    """Have a queue give a group nothing."""
    with _admin(arguments) as admin:
        care = admin.suspend_queue(
            *_place(arguments), expected_offset=arguments.expect, reason=arguments.reason
        )
    _tell(care)


def resume(arguments: argparse.Namespace) -> None:
    """Let a suspended queue give its messages again."""
    with _admin(arguments) as admin:
        care = admin.resume_queue(
            *_place(arguments), expected_offset=arguments.expect, reason=arguments.reason
        )
    _tell(care)


def skip(arguments: argparse.Namespace) -> None:
    """Settle the message at the head of an ordered queue."""
    with _admin(arguments) as admin:
        care = admin.skip_head(
            *_place(arguments), expected_offset=arguments.expect, reason=arguments.reason
        )
    _tell(care)


def park(arguments: argparse.Namespace) -> None:
    """Make a dead letter of the message at the head of an ordered queue."""
    with _admin(arguments) as admin:
        care = admin.park_head(
            *_place(arguments), expected_offset=arguments.expect, reason=arguments.reason
        )
    _tell(care)


def preview(arguments: argparse.Namespace) -> None:
    """Print what a reset would do, a line a queue, and last the token that applies it."""
    kinds = [kind for kind in _TARGETS if getattr(arguments, kind) not in (None, False)]
    if len(kinds) != 1:
        raise InvalidArgument("one of " + ", ".join(f"--{_word(kind)}" for kind in _TARGETS))
    with _admin(arguments) as admin:
        found = admin.preview_offsets(
            arguments.group,
            kinds[0],
            time_ms=arguments.time,
            offset=arguments.offset,
            shift=arguments.shift,
            copy_from=arguments.copy_from,
            topic=arguments.topic,
            queues=None if arguments.queue is None else [arguments.queue],
            moved_max=arguments.moved_max,
        )
    lines = ["topic\tqueue\tcurrent\ttarget\treplay\tskip"]
    lines += [
        f"{one.topic}\t{one.queue}\t{one.current}\t{one.target}\t{one.replay}\t{one.skip}"
        for one in found.queues
    ]
    sys.stdout.write("\n".join([*lines, f"token\t{found.token}"]) + "\n")


def apply(arguments: argparse.Namespace) -> None:
    """Carry out what was previewed; `-` reads the token from what a preview printed."""
    promise = arguments.promise
    if promise == "-":
        promise = sys.stdin.read().strip().rpartition("\t")[2]
    with _admin(arguments) as admin:
        _told(admin.apply_offsets(arguments.group, promise, reason=arguments.reason))


def undo(arguments: argparse.Namespace) -> None:
    """Have a group go on where it was before a reset."""
    with _admin(arguments) as admin:
        _told(
            admin.undo_offsets(
                arguments.group,
                arguments.undo_id,
                reason=arguments.reason,
                moved_max=arguments.moved_max,
            )
        )


def _admin(arguments: argparse.Namespace) -> Admin:
    return Admin(arguments.server, token=arguments.token)


def _place(arguments: argparse.Namespace) -> tuple[str, str, int]:
    return arguments.group, arguments.topic, arguments.queue


def _word(kind: str) -> str:
    return kind.replace("_", "-")


def _tell(care: QueueCare) -> None:
    """Print the offset at the head, what is the case, and whether it was before."""
    fields = [str(care.head), "suspended" if care.is_suspended else "open"]
    if care.dead_letter_offset is not None:
        fields.append(f"dead letter {care.dead_letter_offset}")
    if care.is_repeat:
        fields.append("done before")
    sys.stdout.write("\t".join(fields) + "\n")


def _told(reset: OffsetsReset) -> None:
    """Print a line a queue, and last what undoes it."""
    lines = ["topic\tqueue\tbefore\tafter"]
    lines += [f"{one.topic}\t{one.queue}\t{one.before}\t{one.after}" for one in reset.queues]
    sys.stdout.write("\n".join([*lines, f"undo_id\t{reset.undo_id}"]) + "\n")
