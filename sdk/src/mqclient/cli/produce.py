"""`mq produce`: a line a message, bytes exactly. Knows the producer and the two streams."""

import argparse
import hashlib
import re
import sys
from collections import deque
from collections.abc import Callable

from mqclient.cli.progress import Progress
from mqclient.producing.parcels import SendFuture
from mqclient.producing.producer import Producer
from mqclient.values import AckMode

# Results are looked at from the front once so many are open; the buffer bounds them anyway.
_OPEN_MAX = 20_000


def run(arguments: argparse.Namespace) -> None:
    """Send every line of the input; the first that cannot be sent ends it.

    Of a message with a delay of its own the recall handle and the id are printed.
    """
    key_of = _key_of(arguments)
    digest = hashlib.sha256()
    progress = Progress("sent")
    open_futures: deque[SendFuture] = deque()

    def settle(open_max: int) -> None:
        while len(open_futures) > open_max or (open_futures and open_futures[0].done()):
            result = open_futures.popleft().result()
            progress.step()
            if result.recall_handle is not None:
                sys.stdout.write(f"{result.recall_handle}\t{result.message_id}\n")

    try:
        with Producer(
            arguments.server,
            token=arguments.token,
            ack=AckMode(arguments.ack),
            lane=arguments.lane,
        ) as producer:
            for line in sys.stdin.buffer:
                digest.update(line)
                body = line.removesuffix(b"\n")
                future = producer.send_async(
                    arguments.topic,
                    body,
                    tag=arguments.tag,
                    sharding_key=key_of(body),
                    queue=arguments.queue,
                    priority=arguments.priority,
                    delay_level=arguments.level,
                    delay_ms=arguments.delay_ms,
                    deliver_at=arguments.deliver_at,
                )
                progress.bytes += len(body)
                open_futures.append(future)
                settle(_OPEN_MAX)
            producer.flush()
            settle(0)
    finally:
        progress.finish()
        if arguments.checksum:
            sys.stderr.write(f"sha256 {digest.hexdigest()}\n")


def _key_of(arguments: argparse.Namespace) -> Callable[[bytes], str | None]:
    if arguments.key_field is not None:
        index, delimiter = arguments.key_field - 1, arguments.delimiter
        return lambda body: _field(body, delimiter, index)
    if arguments.key_regex is not None:
        pattern = arguments.key_regex
        return lambda body: _matched(body, pattern)
    return lambda _body: None


def _field(body: bytes, delimiter: bytes, index: int) -> str:
    # A line without that field has the empty key, so that such lines keep their order too.
    fields = body.split(delimiter, index + 1)
    return fields[index].decode("utf-8", "replace") if index < len(fields) else ""


def _matched(body: bytes, pattern: re.Pattern[bytes]) -> str:
    found = pattern.search(body)
    if found is None:
        return ""
    chosen = found.group(1) if pattern.groups else found.group()
    return (chosen or b"").decode("utf-8", "replace")
