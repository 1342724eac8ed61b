"""`mq consume --push` and `--ordered`: messages as lines, heard as a member of the group.

Knows the push consumer and the output stream.
"""

import argparse
import threading

from mqclient.cli.consume import filter_of, line_of_format, write
from mqclient.consuming.push.consumer import PushConsumer
from mqclient.consuming.push.listening import Consumed, ListenerContext
from mqclient.wire.records import Message

_BATCH_MAX = 100
# How late a signal may be noticed.
_SIGNAL_S = 0.5


def listen(arguments: argparse.Namespace) -> None:
    """Write what the member hears until `--max`, a signal, or an output nobody reads."""
    printer = _Printer(arguments)
    with PushConsumer(
        arguments.server,
        group=arguments.group,
        listener=printer.hear,
        subscriptions={arguments.topic: filter_of(arguments)},
        token=arguments.token,
        ordered=arguments.ordered,
        consume_batch_max=_BATCH_MAX,
        # One stream takes one line at a time.
        listeners_max=1,
    ):
        # In slices: a signal that comes just before a wait without end would not end it.
        while not printer.is_over.wait(_SIGNAL_S):
            pass
    if printer.error is not None:
        raise printer.error


class _Printer:
    """A listener that writes lines, up to so many."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.is_over = threading.Event()
        self.error: OSError | None = None
        self._left: int | None = arguments.max
        self._line_of = line_of_format(arguments.format)

    def hear(self, messages: list[Message], context: ListenerContext) -> Consumed:
        """Write messages; what is over the limit, or cannot be written, is left to others."""
        taken = messages if self._left is None else messages[: self._left]
        if self.is_over.is_set() or not taken:
            return Consumed.RETRY_LATER
        try:
            write(taken, self._line_of)
        except OSError as error:
            self.error = error
            self.is_over.set()
            return Consumed.RETRY_LATER
        if self._left is not None:
            self._left -= len(taken)
            if not self._left:
                self.is_over.set()
        context.ack_index = len(taken) - 1
        return Consumed.SUCCESS
