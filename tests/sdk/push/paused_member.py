"""A process with one ordered member: says when a listener starts and ends, one ends for each line.

Arguments: the broker's URL, the client id, `trusting` for one that looks at no lock, the topic.
"""

import sys
import threading

from mqclient import Consumed, ListenerContext, Message, PushConsumer
from mqclient.consuming.push.ordered import OrderedDispatch

_LINES = threading.Semaphore(0)


def listener(messages: list[Message], context: ListenerContext) -> Consumed:
    say(f"start {context.epoch} {messages[0].queue_offset} {context.queue.queue}")
    _LINES.acquire()
    say(f"end {context.epoch} {messages[0].queue_offset} {context.queue.queue}")
    return Consumed.SUCCESS


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(url: str, client_id: str, kind: str = "", topic: str = "orders") -> None:
    if kind == "trusting":
        OrderedDispatch.may_begin = lambda *_: True  # type: ignore[method-assign]
    with PushConsumer(
        url,
        group="g",
        topics=topic,
        listener=listener,
        client_id=client_id,
        ordered=True,
        lock_renew_s=0.1,
    ):
        for _ in sys.stdin:
            _LINES.release()
        _LINES.release(100)


if __name__ == "__main__":
    main(*sys.argv[1:])
