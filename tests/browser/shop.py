"""A product with something to see: members of groups, failures, delays. Knows no browser."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mqclient import Admin, Producer, SimpleConsumer

from tests.bound import bound
from tests.web.product import ROOT, Product, environment

# Short enough to wait for, and in the same proportion to each other as the defaults.
MEMBER_TIMEOUT_MS, QUEUE_LOCK_MS = 2_000, 3_000
# Whoever shows one of these as markup runs it.
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m"


def ordered_member(server: str, topic: str, group: str) -> subprocess.Popen[bytes]:
    """Start a member of an ordered group, as a person starts one."""
    command = [str(Path(sys.executable).with_name("mq")), "--server", server]
    command += ["consume", topic, "--group", group, "--ordered", "--follow"]
    return subprocess.Popen(
        bound(command),
        cwd=ROOT,
        env=environment(PYTHONPATH=os.environ.get("PYTHONPATH", "")),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


class Shop:
    """One product, its clients, and the passwords that it made."""

    def __init__(self, data: Path) -> None:
        """Start it; `open` returns when it serves."""
        self.product = Product(
            data,
            worker_processes=1,
            MQWEB_MEMBER_TIMEOUT_MS=str(MEMBER_TIMEOUT_MS),
            MQWEB_QUEUE_LOCK_MS=str(QUEUE_LOCK_MS),
        )
        self.url = f"http://127.0.0.1:{self.product.port}"
        self._members: list[subprocess.Popen[bytes]] = []

    def open(self) -> None:
        """Wait until it serves."""
        self.product.wait_until_ready()

    def close(self) -> int:
        """Send its members home, stop it and return its exit code."""
        for member in self._members:
            self.kill(member)
        return self.product.interrupt()

    def leave_nothing(self) -> None:
        """End whatever is left of it."""
        for member in self._members:
            self.kill(member)
        self.product.kill_everything()

    @property
    def password(self) -> str:
        """Return the password of the account `admin`."""
        return (self.product.data / "admin-password").read_text().strip()

    def topic(self, name: str, *, queue_count: int = 1) -> None:
        """Make a topic."""
        with Admin(self.url) as admin:
            admin.create_topic(name, queue_count=queue_count)

    def send(self, topic: str, *bodies: str, **wishes: Any) -> list[Any]:
        """Send a message for each body; all have the same wishes."""
        with Producer(self.url) as producer:
            return [producer.send(topic, body, **wishes) for body in bodies]

    def member(self, topic: str, group: str) -> subprocess.Popen[bytes]:
        """Start a member of an ordered group; it ends with the shop."""
        member = ordered_member(self.url, topic, group)
        self._members.append(member)
        return member

    def kill(self, member: subprocess.Popen[bytes]) -> None:
        """Kill a member, which says nothing to anybody then."""
        member.kill()
        member.wait()

    def owner(self, group: str, topic: str) -> str | None:
        """Return who holds the lock of the topic's only queue."""
        _, _, answer = self.product.request("GET", f"/api/v1/locks?group={group}&topic={topic}")
        owners = [lock["owner"] for lock in answer["items"]]
        return owners[0] if owners else None

    def ask_for_lock(self, client: str, group: str, topic: str) -> str:
        """Ask for the lock of a topic's only queue that somebody has; return who it is."""
        path = f"/api/v1/groups/{group}/locks:acquire"
        document = {"client_id": client, "queues": [{"topic": topic, "queue": 0}]}
        status, _, answer = self.product.request("POST", path, document)
        assert status == 200, answer
        (refused,) = answer["refused"]
        return str(refused["owner"])

    def let_die(self, topic: str, group: str, bodies: Sequence[str], reason: str) -> None:
        """Send messages and fail with each for good."""
        self.topic(topic)
        self.send(topic, *bodies)
        left = len(bodies)
        with SimpleConsumer(topic, group=group, server=self.url) as consumer:
            while left:
                for message in consumer.receive(wait_ms=1_000):
                    consumer.nack(message, delay_level=-1, reason=reason)
                    left -= 1

    def ordered(self, topic: str, group: str) -> SimpleConsumer:
        """Return a receiver that takes each queue in order."""
        return SimpleConsumer(topic, group=group, server=self.url, ordered=True)

    def committed(self, group: str, topic: str) -> int | None:
        """Return how far a group is in a topic's only queue."""
        with Admin(self.url) as admin:
            (found,) = [one for one in admin.group_offsets(group) if one.topic == topic]
            return found.committed

    def received(self, topic: str, group: str, *, wait_ms: int) -> list[str]:
        """Return what a group is given within a time, and acknowledge it."""
        with SimpleConsumer(topic, group=group, server=self.url) as consumer:
            messages = consumer.receive(wait_ms=wait_ms)
            for message in messages:
                consumer.ack(message)
            return [message.body.decode() for message in messages]
