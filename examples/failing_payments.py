"""Payments that fail: tried again later and later, dead letters in the end, then sent again.

    python examples/failing_payments.py --server http://127.0.0.1:8000

Some payments fail once or twice and succeed then; some fail for as long as the bank is closed, and
become dead letters. When it opens they are sent again, each once although the button is clicked
twice. The exit code is 0 when every payment was made exactly once in the end.
"""

import argparse
import http.client
import json
import sys
import threading
import time
import uuid
from collections import Counter
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from mqclient import Admin, Consumed, ListenerContext, Message, Producer, PushConsumer, RetryPolicy

RETRY_MAX = 3
RETRY_DELAYS_MS = [100, 200, 400]
_HOUR_MS = 3_600_000
_LOOK_S = 0.1


class Bank:
    """Takes payments, but not all at once: some at the second or third try, some when it opens."""

    def __init__(self) -> None:
        """Begin closed."""
        self.is_open = False
        self.tries: Counter[int] = Counter()
        self.paid: Counter[int] = Counter()

    def pay(self, number: int) -> None:
        """Take a payment; raise ConnectionError where that fails this time."""
        self.tries[number] += 1
        if number % 5 == 0 and not self.is_open:
            raise ConnectionError("the bank is closed")
        if number % 3 == 0 and self.tries[number] <= 1 + number % 2:
            raise ConnectionError(f"try number {self.tries[number]} was lost on the line")
        self.paid[number] += 1


class Reply(NamedTuple):
    """An answer of the REST API."""

    status: int
    document: Any  # A JSON document.


def ask(server: str, method: str, path: str, document: object = None) -> Reply:
    """Make a request of the REST API."""
    connection = http.client.HTTPConnection(urlsplit(server).netloc, timeout=30)
    with closing(connection):
        body = None if document is None else json.dumps(document)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return Reply(response.status, json.loads(response.read()))


def wait_until(is_there: Any, what: str, until_s: float) -> None:
    """Return when something is true; end the program when time is up."""
    while not is_there():
        if time.monotonic() > until_s:
            sys.exit(f"in time it did not happen that {what}")
        time.sleep(_LOOK_S)


def waiting_letters(server: str, group: str) -> list[dict[str, Any]]:
    """Return the group's dead letters that nobody has dealt with."""
    path = f"/api/v1/groups/{group}/dead-letters?state=waiting"
    items: list[dict[str, Any]] = ask(server, "GET", path).document["items"]
    return items


def resend(server: str, group: str, until_s: float) -> int:
    """Send all dead letters of a group again, by a double click; return how many were sent."""
    path = f"/api/v1/groups/{group}/dead-letters:resend"
    first, second = (ask(server, "POST", path, {"all": True}) for _ in range(2))
    if (first.status, second.status) != (202, 409):
        sys.exit(f"the clicks were answered {first} and {second}")
    job = first.document["id"]

    def is_done() -> bool:
        return ask(server, "GET", f"/api/v1/jobs/{job}").document["ended_at"] is not None

    wait_until(is_done, "the dead letters are sent again", until_s)
    return int(ask(server, "GET", f"/api/v1/jobs/{job}").document["sent"])


def run(arguments: argparse.Namespace) -> int:
    """Pay, fail, bury, open the bank, send again; return the exit code."""
    server, count = arguments.server, arguments.payments
    topic = f"payments-{uuid.uuid4().hex[:8]}"
    group = f"{topic}-billing"
    until_s = time.monotonic() + arguments.timeout_s
    with Admin(server) as admin:
        # Unused for an hour, the broker deletes it by itself.
        admin.create_topic(topic, expires_ms=_HOUR_MS)
        admin.set_retry(
            group,
            retry_max=RETRY_MAX,
            retry_policy=RetryPolicy.CUSTOM,
            retry_delays_ms=RETRY_DELAYS_MS,
        )
    with Producer(server) as producer:
        producer.send_many(topic, [str(number) for number in range(count)])

    bank, lock = Bank(), threading.Lock()

    def listener(messages: list[Message], _context: ListenerContext) -> Consumed:
        for message in messages:
            with lock:
                bank.pay(int(message.body))
        return Consumed.SUCCESS

    closed_out = {number for number in range(count) if number % 5 == 0}
    with PushConsumer(server, group=group, listener=listener, topics=topic):
        wait_until(lambda: len(bank.paid) >= count - len(closed_out), "the rest is paid", until_s)
        wait_until(
            lambda: len(waiting_letters(server, group)) == len(closed_out),
            "the others are dead letters",
            until_s,
        )
        letters = waiting_letters(server, group)
        print(f"{len(bank.paid)} paid, {len(letters)} dead letters: {letters[0]['reason']}")
        bank.is_open = True
        print(f"{resend(server, group, until_s)} sent again")
        wait_until(lambda: len(bank.paid) == count, "everything is paid", until_s)

    tries = {bank.tries[number] for number in closed_out}
    again = [number for number, times in bank.paid.items() if times != 1]
    print(f"{count} payments, {bank.tries.total()} tries")
    is_exact = not again and tries == {RETRY_MAX + 2} and not waiting_letters(server, group)
    print("every payment was made once" if is_exact else f"NOT ONCE: {again} {tries}")
    return 0 if is_exact else 1


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--server", default="http://127.0.0.1:8000", help="address of mqweb")
    parser.add_argument("--payments", type=int, default=40, help="how many are sent")
    parser.add_argument("--timeout-s", type=float, default=120.0, help="when to give up")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
