"""A run whose clients come by RocketMQ's protocol, and one who kills them as they hold messages.

Knows processes and histories; judges nothing.
"""

import asyncio
import signal
import time
from pathlib import Path

from apps.engine.config import EngineConfig
from apps.engine.local import LocalEngine
from apps.engine.types import CatalogSnapshot, GroupSpec, TopicSpec
from tests.consuming.field import ORDERED, QUEUES, TOPIC, Client, Run, wait_for
from tests.histories.events import Event, Kind, Verb, of_line
from tests.histories.history import NEVER_NS
from tests.process.product import SEGMENT_BYTES, free_port

_LATEST_BYTES = 128 * 1024
PLAIN = "parcels"
"""The group that reads out of order; ORDERED has its queues one by one."""


class GrpcRun(Run):
    """A run with a group in order and one out of order."""

    client_module = "tests.consuming.grpcclient"

    def __init__(self, directory: Path, seed: int) -> None:
        """Make the store, with what was decided about the groups."""
        super().__init__(directory, seed)
        self._port = free_port()
        self.variables["MQWEB_GRPC_PORT"] = str(self._port)
        asyncio.run(_decide(self.broker.data / "store"))

    @property
    def client_port(self) -> int:
        """Return the port of the protocol."""
        return self._port

    def kill_while_it_holds(self, role: str, group: str) -> None:
        """Kill a member that holds messages; return when each of them was given to somebody.

        Another one takes its place.
        """
        victim = self.rng.choice([c for c in self.members(group) if c.role == role])
        wait_for(lambda: self._stands_with_messages(victim), f"{victim.name} holds messages")
        missing = _held_by(self._path(victim))
        self.kill(victim)
        killed_ns = time.monotonic_ns()
        # While they are waited for the one that takes its place may be given them too.
        self.start_client(role, group)

        def came_again() -> bool:
            for member in self.members(group):
                missing.difference_update(_given_since(self._path(member), killed_ns))
            return not missing

        wait_for(came_again, f"what {victim.name} held comes again")

    def _stands_with_messages(self, victim: Client) -> bool:
        """Say whether a client stands still and holds messages; it goes on where it does not.

        Nobody can say of a process that runs what it holds when it is killed.
        """
        if not _held_by(self._path(victim)):
            return False
        victim.signal(signal.SIGSTOP)
        if _held_by(self._path(victim)):
            return True
        victim.signal(signal.SIGCONT)
        return False

    def _path(self, client: Client) -> Path:
        return self.directory / f"{client.name}.jsonl"


def _held_by(path: Path) -> set[str]:
    """Return what a client works on and has not begun to settle, by the end of its history."""
    given: dict[int, tuple[int, set[str]]] = {}
    for event in _latest(path):
        if event.verb is Verb.DELIVER and event.kind is Kind.INVOKE:
            invisible_ms = event.values.get("invisible_ms")
            until_ns = NEVER_NS if invisible_ms is None else event.at_ns + invisible_ms * 1_000_000
            given[event.number] = (until_ns, {id_ for id_, _, _ in event.values["messages"]})
        elif event.verb is Verb.DELIVER and event.values["done"] == 0:
            # It failed: what it was given comes again whether or not its client lives.
            given.pop(event.number, None)
        elif event.verb is Verb.ACK and event.kind is Kind.INVOKE:
            for _, ids in given.values():
                ids.difference_update(event.values["ids"])
    now_ns = time.monotonic_ns()
    return set().union(*(ids for until_ns, ids in given.values() if until_ns > now_ns))


def _given_since(path: Path, at_ns: int) -> set[str]:
    """Return what a client was given after a moment, by the end of its history."""
    return {
        id_
        for event in _latest(path)
        if event.kind is Kind.INVOKE and event.verb is Verb.DELIVER and event.at_ns > at_ns
        for id_, _, _ in event.values["messages"]
    }


def _latest(path: Path) -> list[Event]:
    """Return the last events of a history: a long one takes too long to be looked at as a whole."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        start = max(0, path.stat().st_size - _LATEST_BYTES)
        file.seek(start)
        lines = file.read().split(b"\n")
    # The first is cut where it does not begin the file, and the last may be torn.
    return [of_line(line) for line in lines[1 if start else 0 : -1]]


async def _decide(store: Path) -> None:
    """Decide that a group reads in order, as a broker leaves it behind when it stops."""
    engine = await LocalEngine.open(
        store, EngineConfig(segment_bytes=SEGMENT_BYTES, reserve_bytes=0)
    )
    topics = {TOPIC: TopicSpec(name=TOPIC, queue_count=QUEUES)}
    groups = {ORDERED: GroupSpec(name=ORDERED, ordered=True), PLAIN: GroupSpec(name=PLAIN)}
    engine.publish_catalog(CatalogSnapshot(version=2, topics=topics, groups=groups))
    await engine.close()
