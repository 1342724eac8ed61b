"""`mq consume --push` and `--ordered`: messages as lines, heard as a member of the group.

Knows the push consumer and the output stream.
"""

import argparse
import threading

from mqclient.cli.consume import filter_of, line_of_format
from mqclient.cli.lines import write
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
        trace=arguments.trace,
        # A batch is done as a whole, and with a limit a part of one would be too much.
        consume_batch_max=_BATCH_MAX if arguments.max is None else 1,
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

    def hear(self, messages: list[Message], _context: ListenerContext) -> Consumed:
        """Write messages; what is over the limit, or cannot be written, is left to others."""
        if self.is_over.is_set():
            return Consumed.NOT_NOW
        try:
            write(messages, self._line_of)
        except OSError as error:
            self.error = error
            self.is_over.set()
            return Consumed.NOT_NOW
        if self._left is not None:
            self._left -= len(messages)
            if not self._left:
                self.is_over.set()
        return Consumed.SUCCESS
