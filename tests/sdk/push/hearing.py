"""Listeners that tell a test what they heard, and wait where it wants them to. Know no broker."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable

from mqclient import Consumed, ListenerContext, Message

# Generous: a machine under load is slow, and only a hang must fail.
WAIT_S = 60.0


def wait_until(holds: Callable[[], bool]) -> None:
    """Look again and again, for what the client or the broker does without telling anybody."""
    deadline_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


class Ear:
    """Keeps what a listener was given; `wait_for` waits until something holds of it."""

    def __init__(self, result: Callable[[Message, ListenerContext], object] | None = None) -> None:
        self.bodies: list[bytes] = []
        self.by_queue: dict[int, list[bytes]] = defaultdict(list)
        self.contexts: list[ListenerContext] = []
        self.threads: set[str] = set()
        self._result = result or (lambda _message, _context: Consumed.SUCCESS)
        self._changed = threading.Condition()

    def __call__(self, messages: list[Message], context: ListenerContext) -> Consumed | None:
        with self._changed:
            for message in messages:
                self.bodies.append(message.body)
                self.by_queue[message.queue].append(message.body)
            self.contexts.append(context)
            self.threads.add(threading.current_thread().name)
            self._changed.notify_all()
        return self._result(messages[0], context)  # type: ignore[return-value]

    async def listen(self, messages: list[Message], context: ListenerContext) -> Consumed | None:
        return self(messages, context)

    def wait_for(self, holds: Callable[["Ear"], bool]) -> None:
        """Wait until it holds; AssertionError when it does not within WAIT_S."""
        with self._changed:
            assert self._changed.wait_for(lambda: holds(self), WAIT_S), self.bodies

    def wait_for_count(self, count: int) -> None:
        self.wait_for(lambda ear: len(ear.bodies) >= count)


class Gate:
    """A listener that stays inside until it is let out."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.exit = threading.Semaphore(0)
        self.inside: list[int] = []
        self.inside_max = 0
        self.heard: list[tuple[int, bytes]] = []
        self._lock = threading.Lock()

    def __call__(self, messages: list[Message], context: ListenerContext) -> Consumed:
        queue = context.queue.queue
        with self._lock:
            self.inside.append(queue)
            self.inside_max = max(self.inside_max, self.inside.count(queue))
            self.heard += [(queue, message.body) for message in messages]
        self.entered.release()
        assert self.exit.acquire(timeout=WAIT_S)
        with self._lock:
            self.inside.remove(queue)
        return Consumed.SUCCESS

    def wait_inside(self) -> None:
        assert self.entered.acquire(timeout=WAIT_S)

    def let_out(self, count: int = 1) -> None:
        self.exit.release(count)
