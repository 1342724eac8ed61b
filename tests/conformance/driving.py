"""A driver process and the protocol it speaks: one JSON document a line, each way.

Knows no client and no server. A driver is a program around one official client; the scenarios
speak to all of them alike, so that what is right is written down once.

    in      {"id": 1, "op": "send", "name": "p", ...}
    out     {"id": 1, "ok": {...}}
            {"id": 1, "error": {"code": 40402 or null, "text": "..."}}
            {"event": "message" or "check", "name": "p", "message": {...}, ...}

    op              fields besides `name`                              answer
    open_producer   settings, topics, verdict of check-backs or null   {}
    send            topic, body, tag, keys, properties, message_group, message_id, recall_handle,
                    deliver_at_ms, priority, lite_topic,               transaction
                    in_transaction
    end             transaction, verdict                               {}
    recall          topic, handle                                      message_id
    open_simple     settings, group, filters, wait_s                   {}
    receive         messages_max, invisible_s                          messages
    ack, hide       handle; hide: invisible_s                          {}
    open_push       settings, group, filters, failures, holds          {}
    open_lite       settings, group, topic, kind, wait_s, failures     {}
    subscribe_lite, unsubscribe_lite     lite_topic                    {}
    lite_topics                                                        names
    close                                                              {}

`open_lite` starts a consumer of lite topics of the kind `push` or `simple`, which is received from
and settled as `open_simple`'s. Settings are endpoint, is_tls, namespace, access_key and secret;
bodies are Base64. A push consumer's listener fails at a body so often as `failures` says, and never
returns from one of `holds`.
"""

import base64
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

ANSWER_S_MAX = 90.0
_CODE_IN_TEXT = re.compile(r"response-code=(\d+)|\b([456]0\d{3}|4[123]\d{3})\b")


class ClientRefused(Exception):
    """The client raised; `code` is RocketMQ's, None where the client does not tell it."""

    def __init__(self, op: str, code: int | None, text: str) -> None:
        super().__init__(f"{op}: {text}")
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A message as a client showed it."""

    topic: str
    message_id: str
    body: bytes
    tag: str | None
    keys: tuple[str, ...]
    properties: Mapping[str, str]
    message_group: str | None
    attempt: int | None
    is_corrupted: bool
    seen_s: float
    lite_topic: str | None = None
    handle: str | None = None
    is_success: bool = True

    @property
    def text(self) -> str:
        """Return the body as text."""
        return self.body.decode()

    @classmethod
    def of(cls, document: Mapping[str, Any], *, is_success: bool = True) -> "Seen":
        """Read what a driver wrote."""
        return cls(
            topic=document["topic"],
            message_id=document["message_id"],
            body=base64.b64decode(document["body"] or ""),
            tag=document["tag"],
            keys=tuple(document["keys"]),
            properties=document["properties"],
            message_group=document["message_group"],
            attempt=document["attempt"],
            is_corrupted=document["is_corrupted"],
            seen_s=time.monotonic(),
            lite_topic=document.get("lite_topic"),
            handle=document.get("handle"),
            is_success=is_success,
        )


class Driver:
    """One process with any number of the official client's producers and consumers in it."""

    def __init__(self, command: Sequence[str], *, log: Path, environ: Mapping[str, str]) -> None:
        """Start the process; what the client prints goes to `log`."""
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **environ},
                start_new_session=True,
            )
        self._news = threading.Condition(threading.RLock())
        self._answers: dict[int, dict[str, Any]] = {}
        self._events: list[tuple[str, str, Seen]] = []
        self._count = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """Carry out one operation and return its answer; raise ClientRefused."""
        with self._news:
            self._count += 1
            number = self._count
        assert self._process.stdin is not None
        line = json.dumps({"id": number, "op": op, **fields}) + "\n"
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise AssertionError(self._end()) from error
        answer = self._wait(lambda: self._answers.get(number), f"no answer to {op}", ANSWER_S_MAX)
        if "error" in answer:
            told = answer["error"]
            raise ClientRefused(op, _code_of(told), told["text"])
        done: dict[str, Any] = answer["ok"]
        return done

    def messages(self, name: str) -> list[Seen]:
        """Return what the listener of a push consumer saw so far."""
        return self._of("message", name)

    def checks(self, name: str) -> list[Seen]:
        """Return which messages a producer was asked about so far."""
        return self._of("check", name)

    def wait_for(self, condition: Callable[[], T], what: str, *, within_s: float) -> T:
        """Return the first value of `condition` that is true; it is asked at each event."""
        return self._wait(condition, what, within_s)

    def kill(self) -> None:
        """Kill the process as the kernel would, and see that it is gone."""
        os.killpg(self._process.pid, signal.SIGKILL)
        assert self._process.wait() == -signal.SIGKILL

    def stop(self) -> None:
        """End the process without asking its clients."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._reader.join()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            # A line that nobody read was still in the buffer.
            return

    def _of(self, kind: str, name: str) -> list[Seen]:
        with self._news:
            return [seen for event, whose, seen in self._events if (event, whose) == (kind, name)]

    def _wait(self, condition: Callable[[], T | None], what: str, within_s: float) -> T:
        deadline_s = time.monotonic() + within_s
        with self._news:
            while True:
                found = condition()
                if found:
                    return found
                if self._process.poll() is not None and not self._reader.is_alive():
                    raise AssertionError(f"{what}: {self._end()}")
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise AssertionError(f"{what} within {within_s} s: {self._tail()}")
                self._news.wait(min(left_s, 0.5))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            document = json.loads(line)
            with self._news:
                if "event" in document:
                    is_success = document.get("is_success", True)
                    seen = Seen.of(document["message"], is_success=is_success)
                    self._events.append((document["event"], document["name"], seen))
                else:
                    self._answers[document["id"]] = document
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def _end(self) -> str:
        return f"the driver ended with {self._process.wait()}: {self._tail()}"

    def _tail(self) -> str:
        return self._log.read_bytes()[-3000:].decode("utf-8", "replace")


def _code_of(told: Mapping[str, Any]) -> int | None:
    if told["code"]:
        return int(told["code"])
    found = _CODE_IN_TEXT.search(told["text"])
    return None if found is None else int(found[1] or found[2])
