"""Acknowledges, gives back and extends: one thread, so that no handle is used while it changes.

Knows holdings and the broker's answers; not what the messages say, nor kombu.
"""

import logging
import threading
from collections.abc import Callable, Iterable

from mqclient.celery.client import Client
from mqclient.celery.holding import Held, Holdings, Step, Verb
from mqclient.celery.messages import Unreadable, unpacked
from mqclient.celery.outages import Outage
from mqclient.celery.renewing import renewed
from mqclient.consuming.handles import Run, runs_of, take_new_handles
from mqclient.errors import Closed, MqError
from mqclient.protocol.calls import Call
from mqclient.values import Settled, Settlement
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")

JOIN_S = 1.0


class Settler:
    """Carries out what is due for the messages held. Its thread starts with the first of them."""

    def __init__(self, client: Client, *, on_failure: Callable[[MqError], None]) -> None:
        """Bind to a broker; `on_failure` is told of an outage that lasts too long."""
        self._client = client
        self._options = client.options
        self._clock = client.clock
        self._holdings = Holdings(visibility_s=client.options.visibility_timeout_s)
        self._outage = Outage(client, "settling", on_failure=on_failure)
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._idle = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._is_busy = False
        self._in_haste = False
        self._is_stopped = False
        self._end_s: float | None = None
        self._on_end: Callable[[], None] = lambda: None

    def admit(self, messages: Iterable[tuple[str, Message]]) -> list[Held]:
        """Keep received messages, each with its lane, from being handed out again until settled.

        Return those that can be read. What is no message of ours is logged and settled: it would
        come again for ever. What was handed out too often is stored anew and comes later.
        """
        readable, unreadable = [], []
        for lane, record in messages:
            if renewed(self._client, record):
                unreadable.append(Held(record, lane, {}))
                continue
            try:
                readable.append(Held(record, lane, unpacked(record.body)))
            except Unreadable as error:
                logger.error("%r of lane %s is thrown away: %s", record, lane, error)
                unreadable.append(Held(record, lane, {}))
        with self._lock:
            now_s = self._clock.steady_s()
            self._holdings.hold(readable, now_s)
            for item in unreadable:
                self._holdings.ack(item, now_s)
            self._start()
            self._work.notify()
        return readable

    def ack(self, item: Held) -> None:
        """Settle a message for good, within milliseconds."""
        with self._lock:
            is_first = not self._holdings.has_unsettled_work
            self._holdings.ack(item, self._clock.steady_s())
            if is_first:
                self._work.notify()

    def give_back(self, items: Iterable[Held]) -> None:
        """Hand messages to the next receiver, within milliseconds."""
        with self._lock:
            self._holdings.give_back(items, self._clock.steady_s())
            self._work.notify()

    def flush(self, timeout_s: float) -> bool:
        """Send what waits to be sent; return False when that took too long."""
        with self._lock:
            if self._thread is None:
                return True
            self._in_haste = True
            self._work.notify()
            is_sent = self._idle.wait_for(self._is_settled, timeout_s)
            self._in_haste = False
            return is_sent

    def go_on_alone(self, on_end: Callable[[], None]) -> None:
        """Send what waits to be sent when the broker is back, then call `on_end`.

        Nobody waits for that. It is given up when the leases have ended.
        """
        with self._lock:
            self._end_s = self._clock.steady_s() + self._options.visibility_timeout_s
            self._on_end = on_end
            self._in_haste = True
            self._work.notify()

    def stop(self) -> None:
        """End the thread after the request under way; what is still held comes back by itself."""
        with self._lock:
            self._is_stopped = True
            self._outage.give_up()
            self._work.notify()
            thread = self._thread
        if thread is not None:
            # It may be connecting, which nothing can end.
            thread.join(JOIN_S)

    def _is_settled(self) -> bool:
        return not (self._is_busy or self._holdings.has_unsettled_work) or self._is_stopped

    def _start(self) -> None:
        if self._thread is None and not self._is_stopped:
            self._thread = threading.Thread(
                target=self._loop, name="mqclient-celery-settling", daemon=True
            )
            self._thread.start()

    def _loop(self) -> None:
        while (step := self._next_step()) is not None:
            is_done = self._carry_out(step)
            with self._lock:
                self._is_busy = False
                if is_done:
                    self._holdings.done(step, self._clock.steady_s())
                else:
                    self._holdings.put_back(step)
                if self._is_settled():
                    self._idle.notify_all()
        self._on_end()

    def _next_step(self) -> Step | None:
        with self._lock:
            while not self._is_stopped:
                now_s = self._clock.steady_s()
                if self._end_s is not None and (
                    now_s >= self._end_s or not self._holdings.has_unsettled_work
                ):
                    break
                step = self._holdings.next_step(now_s, in_haste=self._in_haste)
                if step is not None:
                    self._is_busy = True
                    return step
                self._work.wait(self._holdings.wait_s(now_s))
            self._idle.notify_all()
            return None

    def _carry_out(self, step: Step) -> bool:
        """Make the step's request; return False when it must be made again later."""
        runs = runs_of(item.record for item in step.items)
        try:
            results = self._client.pool.call(
                self._call(step.verb, [run.handle for run in runs]), self._options.timeout_s
            )
        except Closed:
            return True
        except MqError as error:
            return not self._outage.has_failed(error)
        self._outage.is_over()
        if step.verb is Verb.EXTEND:
            take_new_handles(runs, results)
        self._note_lost(step, runs, results)
        return True

    def _call(self, verb: Verb, handles: list[str]) -> Call[list[Settlement]]:
        calls, group = self._client.calls, self._options.group
        if verb is Verb.ACK:
            return calls.ack(group, handles)
        if verb is Verb.GIVE_BACK:
            return calls.nack(group, handles, delay_ms=0, reason="")
        return calls.extend(group, handles, invisible_ms=self._options.visibility_timeout_ms)

    def _note_lost(self, step: Step, runs: list[Run], results: list[Settlement]) -> None:
        lost = {
            id(message)
            for result in results
            if result.status is not Settled.OK
            for message in runs[result.index].messages
        }
        if not lost:
            return
        # A message lost while it was extended is told once; its late settling is no news.
        news = [item for item in step.items if id(item.record) in lost and not item.is_lost]
        for item in news:
            item.is_lost = True
        if news and step.verb is not Verb.GIVE_BACK:
            logger.warning(
                "%d of %d messages were no longer ours when they were to be %s, such as %r; "
                "they are delivered again",
                sum(item.is_lost for item in step.items),
                len(step.items),
                "extended" if step.verb is Verb.EXTEND else "acknowledged",
                news[0].record,
            )
