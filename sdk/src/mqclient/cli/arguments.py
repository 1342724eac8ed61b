"""What `mq` understands. Knows words and which function each command is."""

import argparse
import os
import re
from datetime import datetime
from pathlib import Path

from mqclient.cli import (
    bench,
    care,
    consume,
    dead_letters,
    delayed,
    find,
    groups,
    listen,
    mirror,
    produce,
    topics,
    trace,
)
from mqclient.consuming.tracer import is_trace_wanted
from mqclient.errors import InvalidArgument
from mqclient.protocol.endpoint import DEFAULT_SERVER
from mqclient.times import milliseconds_of

Commands = argparse._SubParsersAction  # argparse has no public name for it.


_RETENTION_HELP = "hide messages after so many milliseconds; 0: the store's time"


def parser() -> argparse.ArgumentParser:
    """Return the parser; a parsed command has its function in `run`."""
    top = argparse.ArgumentParser(prog="mq", description="Send to and receive from mqweb.")
    top.add_argument(
        "--server",
        default=os.environ.get("MQWEB_URL", DEFAULT_SERVER),
        help="the broker's URL (MQWEB_URL, else %(default)s)",
    )
    top.add_argument(
        "--token", default=os.environ.get("MQWEB_TOKEN"), help="the access token (MQWEB_TOKEN)"
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    _add_topic(commands)
    _add_group(commands)
    _add_produce(commands)
    _add_recall(commands)
    _add_consume(commands)
    _add_find(commands)
    _add_trace(commands)
    _add_dead_letters(commands)
    _add_tail(commands)
    _add_mirror(commands)
    _add_bench(commands)
    return top


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _not_negative(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return number


def _pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(os.fsencode(text))
    except re.error as error:
        raise argparse.ArgumentTypeError(f"is no regular expression: {error}") from error


def _moment(text: str) -> datetime | int:
    if text.isdigit():
        return int(text)
    try:
        return milliseconds_of(datetime.fromisoformat(text))
    except (ValueError, InvalidArgument) as error:
        raise argparse.ArgumentTypeError(f"is no time with a zone: {error}") from error


def _separator(text: str) -> bytes:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return os.fsencode(text.replace("\\t", "\t"))


def _add_topic(commands: "Commands[argparse.ArgumentParser]") -> None:
    group = commands.add_parser("topic", help="create, list, describe, delete topics")
    verbs = group.add_subparsers(required=True, metavar="VERB")
    create = verbs.add_parser("create", help="create a topic, or change the one that exists")
    create.add_argument("topic")
    create.add_argument("--queues", type=_positive, default=4)
    create.add_argument(
        "--type",
        default="MIXED",
        choices=["NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE", "MIXED"],
    )
    create.add_argument("--retention-ms", type=_not_negative, help=_RETENTION_HELP)
    create.add_argument(
        "--cleanup",
        choices=["delete", "compact"],
        help="compact keeps the newest message of each key for ever; fixed from then on",
    )
    create.set_defaults(run=topics.create)
    change = verbs.add_parser("set", help="change what is said of a topic, and nothing else")
    change.add_argument("topic")
    change.add_argument("--queues", type=_positive)
    change.add_argument("--retention-ms", type=_not_negative, help=_RETENTION_HELP)
    change.set_defaults(run=topics.change)
    every = verbs.add_parser("list", help="name every topic")
    every.set_defaults(run=topics.list_all)
    describe = verbs.add_parser("describe", help="show a topic's queues")
    describe.add_argument("topic")
    describe.set_defaults(run=topics.describe)
    lites = verbs.add_parser("lites", help="show the lite topics of a topic of type LITE")
    lites.add_argument("topic")
    lites.set_defaults(run=topics.lites)
    delete = verbs.add_parser("delete", help="delete a topic with its messages")
    delete.add_argument("topic")
    delete.add_argument("--reason", default="", help="why; kept in the audit log")
    delete.add_argument("--even-in-use", action="store_true", help="also while groups read it")
    delete.set_defaults(run=topics.delete)


def _add_group(commands: "Commands[argparse.ArgumentParser]") -> None:
    group = commands.add_parser("group", help="list and describe consumer groups")
    verbs = group.add_subparsers(required=True, metavar="VERB")
    every = verbs.add_parser("list", help="name every group")
    every.set_defaults(run=groups.list_all)
    describe = verbs.add_parser("describe", help="show a group's members and their queues")
    describe.add_argument("group")
    describe.set_defaults(run=groups.describe)
    lag = verbs.add_parser("lag", help="show what a group has left to do, in lite topics too")
    lag.add_argument("group")
    lag.set_defaults(run=groups.lag)
    _add_care(verbs)
    _add_offsets(verbs)


def _add_care(verbs: "Commands[argparse.ArgumentParser]") -> None:
    acts = (
        ("suspend", care.suspend, "have a queue give the group nothing until it is resumed"),
        ("resume", care.resume, "let a suspended queue give its messages again"),
        ("skip", care.skip, "settle the message at the head of an ordered queue"),
        ("park", care.park, "make a dead letter of the message at the head of an ordered queue"),
    )
    for name, run, text in acts:
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("group")
        verb.add_argument("topic")
        verb.add_argument("queue", type=_not_negative)
        verb.add_argument(
            "--expect",
            type=_not_negative,
            required=name in ("skip", "park"),
            metavar="OFFSET",
            help="of the message at the head; refused when it is another",
        )
        verb.add_argument("--reason", required=True, help="kept with the act")
        verb.set_defaults(run=run)


def _add_offsets(verbs: "Commands[argparse.ArgumentParser]") -> None:
    preview = verbs.add_parser("preview", help="show what having a group go on elsewhere would do")
    preview.add_argument("group")
    where = preview.add_mutually_exclusive_group(required=True)
    where.add_argument("--earliest", action="store_true", help="at the first message")
    where.add_argument("--latest", action="store_true", help="at the end")
    where.add_argument("--time", type=_moment, help="at the first message stored then or later")
    where.add_argument("--offset", type=_not_negative, help="at this offset of each queue")
    where.add_argument("--shift", type=int, help="so many messages on, or back where negative")
    where.add_argument("--copy-from", metavar="GROUP", help="where another group is")
    preview.add_argument("--topic", help="only this one")
    preview.add_argument("--queue", type=_not_negative, help="only this one; with --topic")
    _add_moved_max(preview)
    preview.set_defaults(run=care.preview)
    apply = verbs.add_parser("apply", help="carry out what was previewed")
    apply.add_argument("group")
    apply.add_argument("promise", metavar="TOKEN", help="of the preview; - reads its output")
    apply.add_argument("--reason", required=True, help="kept with the reset")
    apply.set_defaults(run=care.apply)
    undo = verbs.add_parser("undo", help="have a group go on where it was before a reset")
    undo.add_argument("group")
    undo.add_argument("undo_id", help="as applying printed it")
    undo.add_argument("--reason", required=True, help="kept with the reset")
    _add_moved_max(undo)
    undo.set_defaults(run=care.undo)


def _add_moved_max(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--moved-max", type=_not_negative, metavar="MESSAGES",
        help="how far the group may have read on in a queue; 10,000 while somebody reads",
    )  # fmt: skip


def _add_produce(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = commands.add_parser("produce", help="send each line of the input as a message")
    command.add_argument("topic")
    key = command.add_mutually_exclusive_group()
    key.add_argument("--key-field", type=_positive, help="this field is the sharding key, from 1")
    key.add_argument(
        "--key-regex", type=_pattern, help="the sharding key: its first group, or all it matches"
    )
    key.add_argument("--queue", type=_not_negative, help="send to this queue only")
    key.add_argument(
        "--priority", type=_not_negative, help="of a topic of that type, from 0, the lowest, on"
    )
    command.add_argument("--delimiter", type=_separator, default=b"\t", help="a tab by default")
    command.add_argument("--tag")
    command.add_argument("--ack", choices=["sync", "async", "oneway"], default="sync")
    command.add_argument(
        "--lane", action="store_true", help="send without HTTP where that is taken"
    )
    command.add_argument("--checksum", action="store_true", help="tell the input's SHA-256")
    delay = command.add_mutually_exclusive_group()
    delay.add_argument("--delay-ms", type=_not_negative, help="deliver after so many milliseconds")
    delay.add_argument(
        "--deliver-at", type=_moment, help="deliver then: RFC 3339, or milliseconds since 1970 UTC"
    )
    delay.add_argument("--level", type=_positive, help="deliver after this delay level's time")
    command.set_defaults(run=produce.run)


def _add_recall(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = commands.add_parser("recall", help="take a delayed message back")
    command.add_argument("handle", help="as `mq produce --delay-ms` printed it")
    command.add_argument("--now", action="store_true", help="deliver it at once instead")
    command.set_defaults(run=delayed.recall)


def _add_dead_letters(commands: "Commands[argparse.ArgumentParser]") -> None:
    group = commands.add_parser("dlq", help="list dead letters of a group, send them again")
    verbs = group.add_subparsers(required=True, metavar="VERB")
    every = verbs.add_parser("list", help="a line for each dead letter")
    every.add_argument("group")
    every.set_defaults(run=dead_letters.list_all)
    resend = verbs.add_parser("resend", help="send dead letters again; prints the job's id")
    resend.add_argument("group")
    resend.add_argument("ids", nargs="*", help="as `mq dlq list` prints them; all without any")
    resend.add_argument("--topic", help="send them there, not where they came from")
    resend.add_argument("--dry-run", action="store_true", help="only count")
    resend.set_defaults(run=dead_letters.resend)


def _add_consume(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = commands.add_parser("consume", help="write messages to the output, acknowledge them")
    command.add_argument("topic")
    command.add_argument("--group", required=True)
    command.add_argument("--follow", action="store_true", help="wait for more, without end")
    command.add_argument("--max", type=_positive, help="end after so many messages")
    command.add_argument("--filter", default="*", help="tags, such as 'TagA || TagB'")
    command.add_argument("--format", choices=["text", "json"], default="text")
    command.add_argument(
        "--order", choices=["none", "key"], default="none",
        help="key: the messages of a queue, and so of a key, one receiver at a time",
    )  # fmt: skip
    member = command.add_mutually_exclusive_group()
    member.add_argument(
        "--push", action="store_true", help="as a member with queues of its own; without end"
    )
    member.add_argument(
        "--ordered", action="store_true", help="likewise, under the queues' locks and in order"
    )
    command.add_argument("--sql", help='a filter over properties, such as "size > 3"')
    command.add_argument(
        "--trace", action="store_true", default=is_trace_wanted(),
        help="tell the broker of each message's end, for pipelines to read (MQWEB_TRACE)",
    )  # fmt: skip
    command.set_defaults(run=_consume)


def _consume(arguments: argparse.Namespace) -> None:
    is_member = arguments.push or arguments.ordered
    (listen.listen if is_member else consume.consume)(arguments)


def _add_find(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = commands.add_parser("find", help="find messages, the newest first")
    command.add_argument("--topic", required=True)
    one = command.add_mutually_exclusive_group()
    one.add_argument("--key", help="one of the message's keys")
    one.add_argument("--id", dest="message_id", help="the message's id")
    one.add_argument("--offset-id", help="RocketMQ's id of its place: 32 hex digits")
    moment = "RFC 3339, or milliseconds since 1970 UTC"
    command.add_argument(
        "--from", dest="from_time", type=_moment, help=f"stored then or later: {moment}"
    )
    command.add_argument("--to", dest="to_time", type=_moment, help=f"stored before: {moment}")
    command.add_argument("--tag")
    command.add_argument("--queue", type=_not_negative)
    command.add_argument(
        "--offset", dest="queue_offset", type=_not_negative, help="the one there; with --queue"
    )
    command.add_argument("--filter", dest="condition", help="a condition on properties, in SQL92")
    command.add_argument("--max", dest="messages_max", type=_positive, help="32 by default, to 256")
    command.add_argument("--cursor", help="go on where an earlier search ended")
    command.add_argument("--json", action="store_true", help="a document a line")
    command.set_defaults(run=find.find)


def _add_trace(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = commands.add_parser("trace", help="tell what became of a message")
    command.add_argument("message_id", metavar="ID", help="the message's id")
    command.add_argument("--topic", help="where several messages have the id")
    command.add_argument("--json", action="store_true", help="one document")
    command.set_defaults(run=trace.trace)


def _add_tail(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = commands.add_parser("tail", help="watch a topic without a group")
    command.add_argument("topic")
    command.add_argument("--from", dest="start", choices=["begin", "end"], default="end")
    command.add_argument("--queue", type=_not_negative)
    command.add_argument("--max", type=_positive, help="end after so many messages")
    command.add_argument("--format", choices=["text", "json"], default="text")
    command.set_defaults(run=consume.tail)


def _add_mirror(commands: "Commands[argparse.ArgumentParser]") -> None:
    group = commands.add_parser("mirror", help="copy a topic to or from a RocketMQ 5 endpoint")
    verbs = group.add_subparsers(required=True, metavar="VERB")
    outward = verbs.add_parser("out", help="copy a topic of this broker's to an endpoint")
    outward.add_argument("topic")
    outward.add_argument("--to", required=True, metavar="HOST:PORT", help="of its gRPC door")
    outward.add_argument("--as", dest="topic_there", help="the topic there; the same by default")
    outward.add_argument("--group", help="keeps the position; mirror-TOPIC by default")
    outward.add_argument(
        "--start", type=_start, default="earliest",
        help="of a group without a position: earliest, latest, or stored then or later: a time",
    )  # fmt: skip
    outward.set_defaults(run=mirror.outward)
    inward = verbs.add_parser("in", help="copy a topic of an endpoint's to this broker")
    inward.add_argument("topic")
    inward.add_argument(
        "--from", dest="source", required=True, metavar="HOST:PORT", help="of its gRPC door"
    )
    inward.add_argument("--as", dest="topic_there", help="the topic there; the same by default")
    inward.add_argument("--group", required=True, help="there, in order to keep the order of keys")
    inward.add_argument(
        "--lease", type=_rate, default=30.0, metavar="SECONDS",
        help="after a crash what was received comes again so much later; 10 or more",
    )  # fmt: skip
    inward.add_argument(
        "--start", type=_start,
        help="have the group begin in the lite topics at earliest, latest, or a time",
    )  # fmt: skip
    inward.set_defaults(run=mirror.inward)
    for verb in (outward, inward):
        verb.add_argument(
            "--lite", action="append", default=[], metavar="NAME",
            help="copy this lite topic of TOPIC; again for more. In, others are not handed out",
        )  # fmt: skip
        verb.add_argument("--lite-file", type=Path, help="more of their names, one a line")
        verb.add_argument("--once", action="store_true", help="end where the topic ends now")
        verb.add_argument("--rate", type=_rate, help="at most so many messages a second")
        verb.add_argument("--in-flight", type=_positive, default=16, help="messages at a time")
        verb.add_argument(
            "--patience", type=_rate, default=60.0, metavar="SECONDS",
            help="to try again while a side does not answer",
        )  # fmt: skip
        verb.add_argument(
            "--skip-refused", action="store_true",
            help="pass over messages that the other side will never take, and name each",
        )  # fmt: skip
        verb.add_argument("--namespace", default="", help="of the topic and group there")
        verb.add_argument("--tls", action="store_true", help="the endpoint speaks TLS")
        verb.add_argument("--ca", type=Path, help="certificates to trust, instead of the system's")


def _start(text: str) -> str | int:
    if text in ("earliest", "latest"):
        return text
    moment = _moment(text)
    return moment if isinstance(moment, int) else milliseconds_of(moment)


def _rate(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("must be more than 0")
    return number


def _add_bench(commands: "Commands[argparse.ArgumentParser]") -> None:
    command = commands.add_parser("bench", help="measure against this broker")
    command.add_argument("topic")
    command.add_argument("--messages", type=_positive, default=100_000)
    command.add_argument("--size", type=_positive, default=1024, help="bytes of a body")
    command.add_argument("--mode", choices=["produce", "consume", "ping"], default="produce")
    command.add_argument("--ack", choices=["sync", "async", "oneway"], default="sync")
    command.add_argument("--group", default="mq-bench", help="the group that consumes")
    command.set_defaults(run=bench.run)
