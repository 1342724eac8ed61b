"""`mq consume` and `mq tail`: messages as lines. Knows the consumers and the output stream."""

import argparse
import contextlib
from collections.abc import Callable

from mqclient.cli.lines import json_line, write
from mqclient.consuming.lite import LitePullConsumer
from mqclient.consuming.simple import SimpleConsumer
from mqclient.errors import MqError, UnknownQueue
from mqclient.values import Filter, Sql, TopicQueue
from mqclient.wire.records import Message

_RECEIVE_MAX = 500
# Long enough for a broker that is still putting away what was just sent.
_LAST_WAIT_MS = 200
_FOLLOW_WAIT_MS = 20_000
_POLL_S = 1.0


def consume(arguments: argparse.Namespace) -> None:
    """Write messages of a group and acknowledge each after its line has left this process."""
    line_of = line_of_format(arguments.format)
    left = arguments.max
    with SimpleConsumer(
        arguments.topic,
        arguments.group,
        arguments.server,
        token=arguments.token,
        filter_text=filter_of(arguments),
        wait_ms=_FOLLOW_WAIT_MS if arguments.follow else _LAST_WAIT_MS,
        ordered=arguments.order == "key",
        trace=arguments.trace,
    ) as consumer:
        while left is None or left > 0:
            messages = consumer.receive(_RECEIVE_MAX if left is None else min(_RECEIVE_MAX, left))
            if not messages and not arguments.follow:
                return
            try:
                write(messages, line_of)
            except BaseException:
                # Nobody has them, so another may; the write's error is what matters here.
                with contextlib.suppress(MqError):
                    consumer.nack(messages, reason="the output could not be written")
                raise
            if messages:
                consumer.ack(messages)
            if left is not None:
                left -= len(messages)


def tail(arguments: argparse.Namespace) -> None:
    """Write messages as they come, without a group and so without a trace."""
    line_of = line_of_format(arguments.format)
    left = arguments.max
    with LitePullConsumer(arguments.server, token=arguments.token) as consumer:
        queues = consumer.fetch_queues(arguments.topic)
        if arguments.queue is not None:
            only = TopicQueue(arguments.topic, arguments.queue)
            if only not in queues:
                raise UnknownQueue(f"topic {arguments.topic} has no queue {arguments.queue}")
            queues = [only]
        consumer.assign(queues)
        if arguments.start == "end":
            for queue in queues:
                consumer.seek_to_end(queue)
        while left is None or left > 0:
            messages = consumer.poll(_POLL_S, messages_max=left)
            write(messages, line_of)
            if left is not None:
                left -= len(messages)


def filter_of(arguments: argparse.Namespace) -> Filter:
    """Return what is wanted: SQL where it was given, else tags."""
    return arguments.filter if arguments.sql is None else Sql(arguments.sql)


def line_of_format(name: str) -> Callable[[Message], bytes]:
    """Return what makes a line of a message."""
    return json_line if name == "json" else _text_line


def _text_line(message: Message) -> bytes:
    return message.body + b"\n"
