"""INV-17 on a real product: grants change and tokens are revoked while everything runs.

Senders, receivers, long polls and a lane go on; each answer is judged against every set of rights
that may have been in force while it was decided.
"""

import contextlib
import http.client
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mqclient import Producer
from mqclient.errors import Forbidden, MqError, Unauthenticated

from tests.fuzz.server import Closed
from tests.histories import rights
from tests.histories.rights import Call, Policy, Right
from tests.histories.verdicts import Validity
from tests.rounds import rounds, seed_of_run

pytestmark = pytest.mark.process

# A change is to hold at every door within a second; a busy machine is given half of one more.
GRACE_S = 1.5
PUB, SUB, GROUP = "pub topic", "sub topic", "sub group"
THINGS = {PUB: ("topic", "orders"), SUB: ("topic", "orders"), GROUP: ("group", "billing")}


class Rights:
    """The rights there are, changed one at a time through the API, and every set there was."""

    def __init__(self, product: Closed) -> None:
        self.product = product
        self.policies: list[Policy] = []
        self.tokens: dict[str, str] = {}
        self._grants: dict[tuple[str, str], int] = {}
        self._good: set[str] = set()
        self._numbers: dict[str, str] = {}
        self._count = itertools.count(1)
        self.secrets: dict[str, str] = {}
        self.changes = 0

    def _call(self, method: str, path: str, body: object = None) -> Any:
        token = self.product.tokens["admin"]
        status, answer = self.product.call(method, path, body, token)
        assert status < 300, (method, path, status, answer)
        return answer

    def _changed(self, change: Callable[[], None]) -> None:
        """Make a change, and keep when it was made."""
        begun_ns = time.monotonic_ns()
        change()
        self.policies.append(
            Policy(begun_ns=begun_ns, done_ns=time.monotonic_ns(), rights=self._now())
        )
        self.changes += 1

    def _now(self) -> frozenset[Right]:
        return frozenset(
            (token, action, THINGS[action][1])
            for account, action in self._grants
            for token in self._good
            if token.startswith(f"{account}-")
        )

    def account(self, name: str) -> None:
        """Make an account of a program without any right."""
        self._call("POST", "/api/v1/accounts", {"account": name})

    def grant(self, name: str, action: str) -> None:
        """Allow an account something."""

        def change() -> None:
            kind, thing = THINGS[action]
            body = {
                "account": name, "kind": kind, "name": thing, "match": "literal",
                "actions": [action.split()[0]],
            }  # fmt: skip
            self._grants[name, action] = self._call("POST", "/api/v1/grants", body)["grant"]

        self._changed(change)

    def take(self, name: str, action: str) -> None:
        """Take it back."""

        def change() -> None:
            self._call("DELETE", f"/api/v1/grants/{self._grants[name, action]}")
            del self._grants[name, action]

        self._changed(change)

    def has(self, name: str, action: str) -> bool:
        """Say whether an account is allowed something now."""
        return (name, action) in self._grants

    def issue(self, name: str) -> None:
        """Revoke the token of an account, and give it a new one."""
        old = self.tokens.get(name)
        if old is not None:

            def revoke() -> None:
                self._call("DELETE", f"/api/v1/tokens/{self._numbers[old]}")
                self._good.discard(old)

            self._changed(revoke)

        def change() -> None:
            made = self._call("POST", "/api/v1/tokens", {"account": name, "label": "run"})
            label = f"{name}-{next(self._count)}"
            self._numbers[label] = str(made["token"])
            self._good.add(label)
            self.secrets[label] = made["secret"]
            self.tokens[name] = label

        self._changed(change)


class Traffic:
    """Everybody who works with messages, and every call of theirs."""

    def __init__(self, law: Rights, port: int) -> None:
        self.law = law
        self.port = port
        self.calls: list[Call] = []
        self.is_over = threading.Event()
        self.sent_ns: dict[str, int] = {}
        self._bodies = itertools.count()

    def ask(self, label: str, path: str, body: object) -> tuple[int, Any]:
        """Return status and document; None for what has no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {self.law.secrets[label]}",
        }
        try:
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def note(self, needs: tuple[Right, ...], start_ns: int, status: int, what: str) -> None:
        """Keep a call that has been answered."""
        self.calls.append(
            Call(
                needs=needs, start_ns=start_ns, end_ns=time.monotonic_ns(), what=what,
                is_ok=status < 300, is_refused=status in (401, 403),
            )
        )  # fmt: skip

    def body(self) -> str:
        """Return the body of a message, which says when it was sent at the earliest."""
        body = f"m{next(self._bodies)}"
        self.sent_ns[body] = time.monotonic_ns()
        return body

    def send(self) -> None:
        """Send until the run is over."""
        while not self.is_over.wait(0.01):
            label, body = self.law.tokens["till"], self.body()
            start_ns = time.monotonic_ns()
            status, _ = self.ask(
                label, "/api/v1/topics/orders/messages", {"messages": [{"body": body}]}
            )
            self.note(((label, PUB, "orders"),), start_ns, status, f"send by {label}")

    def send_by_lane(self) -> None:
        """Send on one connection for as long as it is left open."""
        while not self.is_over.wait(0.05):
            label = self.law.tokens["till"]
            server = f"http://127.0.0.1:{self.port}"
            with Producer(server, token=self.law.secrets[label], lane=True) as producer:
                while not self.is_over.wait(0.01) and label == self.law.tokens["till"]:
                    self._send_one(producer, label)

    def _send_one(self, producer: Producer, label: str) -> None:
        body, start_ns = self.body(), time.monotonic_ns()
        status = 0
        try:
            producer.send("orders", body)
            status = 200
        except (Forbidden, Unauthenticated):
            status = 403
        except MqError:
            # Nobody knows what became of it.
            status = 500
        self.note(((label, PUB, "orders"),), start_ns, status, f"lane of {label}")

    def receive(self, wait_ms: int) -> None:
        """Receive until the run is over; polls wait for so long."""
        while not self.is_over.wait(0.01):
            label = self.law.tokens["bill"]
            needs = (label, SUB, "orders"), (label, GROUP, "billing")
            start_ns = time.monotonic_ns()
            status, answer = self.ask(
                label, "/api/v1/groups/billing/messages:receive",
                {"topic": "orders", "wait_ms": wait_ms, "max": 8},
            )  # fmt: skip
            if status >= 300:
                self.note(needs, start_ns, status, f"poll by {label}")
                continue
            for message in answer["messages"]:
                # It cannot have been given before it was sent.
                given_ns = max(start_ns, self.sent_ns.get(message["body"], start_ns))
                self.note(needs, given_ns, 200, f"{message['body']} to {label}")


@contextlib.contextmanager
def at_work(traffic: Traffic) -> Iterator[None]:
    """Have all of them at work for the time of the block."""
    failures: list[BaseException] = []

    def guarded(work: Callable[..., None], *arguments: Any) -> None:
        try:
            work(*arguments)
        except BaseException as error:
            failures.append(error)
            raise

    workers = [
        threading.Thread(target=guarded, args=work)
        for work in (
            (traffic.send,), (traffic.send_by_lane,), (traffic.receive, 0),
            (traffic.receive, 3_000),
        )
    ]  # fmt: skip
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        traffic.is_over.set()
        for worker in workers:
            worker.join(60)
        assert failures == []


@pytest.mark.parametrize("changes", [14, pytest.param(rounds(120), marks=pytest.mark.crash)])
def test_nothing_is_carried_out_that_every_policy_in_force_denies(
    tmp_path: Path, changes: int
) -> None:
    seed = seed_of_run()
    print(f"MQWEB_TEST_SEED={seed}")
    chance = random.Random(seed)
    product = Closed(tmp_path / "data")
    try:
        law = Rights(product)
        for name in ("till", "bill"):
            law.account(name)
            law.issue(name)
        everything = [("till", PUB), ("bill", SUB), ("bill", GROUP)]
        for name, action in everything:
            law.grant(name, action)
        traffic = Traffic(law, product.product.port)
        with at_work(traffic):
            for _ in range(changes):
                traffic.is_over.wait(chance.uniform(0.2, 2.5))
                name, action = chance.choice(everything)
                if chance.random() < 0.25:
                    law.issue(name)
                elif law.has(name, action):
                    law.take(name, action)
                else:
                    law.grant(name, action)
            # Whatever is missing by now comes back, so that the end shows that it can.
            for name, action in everything:
                if not law.has(name, action):
                    law.grant(name, action)
            traffic.is_over.wait(3)

        verdict = rights.check(traffic.calls, law.policies, grace_s=GRACE_S)
        print(verdict)
        assert verdict.validity is Validity.VALID, str(verdict)
        assert verdict.counts["carried out"] > 100
        assert verdict.counts["refused"] > 10
        assert verdict.counts["while it changed"] > 0
        assert any("lane of" in call.what and call.is_ok for call in traffic.calls)
        assert any("to bill" in call.what for call in traffic.calls)
    finally:
        product.product.kill_everything()
