"""A run: one broker process, client processes around it, and one who disturbs them all.

Everything that is done to a process is written into the run's own history, and what clients saw
into theirs. Knows processes, files and the HTTP contract; the judging is `tests.histories`' affair.
"""

import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from tests.bound import bound
from tests.consuming.client import digest_of, id_of
from tests.histories.events import Kind, Verb, of_line
from tests.histories.history import History, read
from tests.histories.recorder import Recorder
from tests.process import inspection
from tests.process.boxes import all_frozen
from tests.process.product import Broker, Unanswered

ROOT = Path(__file__).parents[2]
TOPIC = "orders"
ORDERED, TAGGED, UNLOCKED = "fulfil", "mail", "careless"
WANTED_TAGS = ("paid", "shipped")
LEASE_MS = 3_000
MEMBER_TIMEOUT_MS = 2_000
QUEUES = 6
# Generous: only a hang must fail.
DEADLINE_S = 180.0
_LOOK_S = 0.02
_PRODUCER_PAUSE_MS = 25.0
_LISTENER_PAUSE_MS = 2.0
# Short enough for a test, and in the same proportion to each other as the defaults.
SETTINGS = {
    "heartbeat_wait_ms": 500,
    "hold_ms": 1_000,
    "commit_s": 0.5,
    "lock_ask_s": 0.2,
    "retry_delay_ms": 100,
    "suspend_ms": 50,
    "loss_wait_s": 2.0,
    "timeout_s": 10.0,
    "listeners_max": QUEUES,
}


def wait_for(is_there: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Return when something is true; fail when that takes too long."""
    until_s = time.monotonic() + deadline_s
    while not is_there():
        assert time.monotonic() < until_s, f"in {deadline_s:.0f} s it did not happen that {what}"
        time.sleep(_LOOK_S)


class Client:
    """One client process."""

    def __init__(self, run: "Run", role: str, name: str, group: str) -> None:
        """Start it, with a history of its own."""
        self.name = name
        self.role = role
        self.group = group
        self.is_paused = False
        self._path = run.directory / f"{name}.jsonl"
        self._read_bytes = 0
        self._done: Counter[Verb] = Counter()
        self._epochs: dict[int, int] = {}
        orders = {
            "role": role,
            "process": name,
            "history": str(self._path),
            "port": run.client_port,
            "topic": TOPIC,
            "group": group,
            "queues": QUEUES,
            "tags": WANTED_TAGS if group == TAGGED else (),
            "seed": run.rng.randrange(1 << 32),
            "pause_ms": _PRODUCER_PAUSE_MS if role == "producer" else _LISTENER_PAUSE_MS,
            "settings": SETTINGS,
        }
        # With this a process that is aborted writes where its threads stand.
        command = [sys.executable, "-X", "faulthandler"]
        command += ["-m", run.client_module, json.dumps(orders)]
        self.log = run.directory / f"{name}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                bound(command),
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        """Return the process."""
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Say whether the process has not ended."""
        return self._process.poll() is None

    def done(self, verb: Verb) -> int:
        """Return how many operations of a kind it was answered with ok."""
        self._read_on()
        return self._done[verb]

    def epochs(self) -> dict[int, int]:
        """Return the highest epoch of each queue's lock that it was granted."""
        self._read_on()
        return self._epochs

    def _read_on(self) -> None:
        """Read what was added to its history; a line that is not whole yet is left for later."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            text, newline, _ = file.read().rpartition(b"\n")
        self._read_bytes += len(text) + len(newline)
        for event in map(of_line, text.splitlines()):
            if event.kind is Kind.OK:
                self._done[event.verb] += 1
                for _, queue, epoch, _ in event.values.get("locked", ()):
                    self._epochs[queue] = max(epoch, self._epochs.get(queue, 0))

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def ended(self) -> int:
        """Wait until it has ended; return its exit code."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(DEADLINE_S)
        self.signal(signal.SIGABRT)
        self._process.wait()
        stands = self.log.read_text()[-8_000:]
        raise AssertionError(f"{self.name} did not end in {DEADLINE_S:.0f} s; it stood in {stands}")


class Run:
    """One run in one directory. Use it as a context: at its end no process is left."""

    client_module = "tests.consuming.client"

    def __init__(self, directory: Path, seed: int) -> None:
        """Make the store; nothing runs yet."""
        self.directory = directory
        self.seed = seed
        self.rng = random.Random(seed)
        self.broker = Broker(directory / "broker")
        self.recorder = Recorder(directory / "run.jsonl", "run")
        self.clients: dict[str, Client] = {}
        self._numbers = 0
        self._is_broker_up = False
        # Short leases.
        self.variables = {
            "MQWEB_QUEUE_LOCK_MS": str(LEASE_MS),
            "MQWEB_MEMBER_TIMEOUT_MS": str(MEMBER_TIMEOUT_MS),
        }
        self.broker.prepare(**{TOPIC: QUEUES})

    def __enter__(self) -> Self:
        self.start_broker()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for client in self.clients.values():
            if client.lives:
                client.signal(signal.SIGKILL)
                client.ended()
        if self._is_broker_up:
            self.broker.kill()
        self.recorder.close()
        if error is not None:
            print(self.how_to_look())

    def how_to_look(self) -> str:
        """Return where everything is kept, and the command that judges it again."""
        judge = f"{sys.executable} -m tests.histories.judge {shlex.quote(str(self.directory))}"
        return f"seed {self.seed}; histories and logs are kept; to judge them again: {judge}"

    # The broker.

    def start_broker(self) -> None:
        """Start it with the variables of this run."""
        self.broker.start(**self.variables)
        self._is_broker_up = True
        self._process("broker", "started", "broker")

    def kill_broker(self) -> None:
        """Kill it."""
        self._nemesis("kill", "broker")
        self.broker.kill()
        self._is_broker_up = False
        self._process("broker", "ended", "broker")

    def pause_broker(self, seconds: float) -> None:
        """Let the broker stand still for a while."""
        self._nemesis("pause", "broker")
        self.broker.signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._nemesis("resume", "broker")
        self.broker.signal(signal.SIGCONT)

    def freeze_everything(self, seconds: float) -> str:
        """Let the broker and every client stand still at one moment; return how that was done."""
        frozen = [client for client in self.clients.values() if client.lives]
        names = ["broker", *(client.name for client in frozen)]
        for name in names:
            self._nemesis("pause", name)
        with all_frozen([self.broker.pid, *(client.pid for client in frozen)]) as how:
            time.sleep(seconds)
            for name in names:
                self._nemesis("resume", name)
        return how

    # Clients.

    @property
    def client_port(self) -> int:
        """Return the port by which clients reach the broker."""
        return self.broker.port

    def subscribe(self, group: str, *, is_ordered: bool) -> None:
        """Write down what the members of a group will want."""
        tags = list(WANTED_TAGS) if group == TAGGED else None
        self.recorder.notice(
            Verb.SUBSCRIBE, group=group, topic=TOPIC, ordered=is_ordered, tags=tags
        )

    def start_client(self, role: str, group: str = "") -> Client:
        """Start a client under a name of its own."""
        self._numbers += 1
        name = f"{role}-{self._numbers}"
        client = self.clients[name] = Client(self, role, name, group)
        self._process(name, "started", "client")
        return client

    def members(self, group: str) -> list[Client]:
        """Return the clients of a group that live and do not stand still."""
        return [
            c for c in self.clients.values() if c.group == group and c.lives and not c.is_paused
        ]

    def kill(self, client: Client) -> None:
        """Kill a client."""
        self._nemesis("kill", client.name)
        client.signal(signal.SIGKILL)
        assert client.ended() == -signal.SIGKILL
        self._process(client.name, "ended", "client")

    def pause(self, client: Client) -> None:
        """Let a client stand still."""
        self._nemesis("pause", client.name)
        client.signal(signal.SIGSTOP)
        client.is_paused = True

    def resume(self, client: Client) -> None:
        """Let a client that stood still go on."""
        self._nemesis("resume", client.name)
        client.signal(signal.SIGCONT)
        client.is_paused = False

    def stop(self, client: Client) -> None:
        """Ask a client to end, and see that it does so in order."""
        client.signal(signal.SIGTERM)
        code = client.ended()
        self._process(client.name, "ended", "client")
        assert code == 0, f"{client.name} ended with {code}: {client.log.read_text()[-4_000:]}"

    def wait_for_deliveries(self, count: int, group: str = ORDERED) -> None:
        """Return when the living members of a group have done so many runs of listeners more."""
        goal = self._delivered(group) + count
        wait_for(lambda: self._delivered(group) >= goal, f"{group} was delivered {count} more")

    def wait_for_sends(self, count: int) -> None:
        """Return when so many more sends were answered with ok."""

        def sent() -> int:
            return sum(c.done(Verb.SEND) for c in self.clients.values())

        goal = sent() + count
        wait_for(lambda: sent() >= goal, f"{count} more sends were answered")

    def heal(self) -> None:
        """Say that the faults are over."""
        self._nemesis("heal", "")

    # What the broker says.

    def locks(self) -> dict[int, tuple[str, int]]:
        """Return who was granted each queue of the ordered group last, and the epoch."""
        found: dict[int, tuple[str, int]] = {}
        for client in self.clients.values():
            for queue, epoch in client.epochs().items():
                if epoch > found.get(queue, ("", 0))[1]:
                    found[queue] = (client.name, epoch)
        return found

    def commit_as(self, client: str, queue: int, epoch: int, offset: int) -> None:
        """Commit once as a client would that does not know that its lock is lost."""
        offsets = [[TOPIC, queue, offset, epoch]]
        committing = self.recorder.invoke(
            Verb.COMMIT, group=ORDERED, client=client, offsets=offsets
        )
        item = {"topic": TOPIC, "queue": queue, "offset": str(offset), "epoch": epoch}
        document = {"client_id": client, "offsets": [item]}
        try:
            status, answer = self.broker.call(
                "POST", f"/api/v1/groups/{ORDERED}/offsets:commit", document
            )
        except Unanswered:
            committing.info("unanswered")
            return
        if status < 400:
            committing.ok()
        else:
            committing.fail(answer["code"])

    def read_progress(self, group: str) -> list[tuple[int, int, int]] | None:
        """Read and write down how far a group is: queue, committed, end; None without an answer."""
        reading = self.recorder.invoke(Verb.PROGRESS, group=group)
        places = [{"topic": TOPIC, "queue": queue} for queue in range(QUEUES)]
        try:
            # The end is read after what is committed, so that 'nothing left' is never a mistake.
            rows = self._call("POST", f"/api/v1/groups/{group}/offsets:begin", {"queues": places})
            committed = {row["queue"]: int(row["offset"]) for row in rows["offsets"]}
            ends = {
                queue: int(self._call("GET", f"{_queue(queue)}?offset=0&max=1")["max_offset"])
                for queue in range(QUEUES)
            }
        except Unanswered as error:
            reading.info(str(error)[:40] or "unanswered")
            return None
        found = [(queue, committed[queue], ends[queue]) for queue in range(QUEUES)]
        reading.ok(offsets=[[TOPIC, queue, done, end] for queue, done, end in found])
        return found

    def drain(self, *groups: str) -> None:
        """Return when the groups have committed everything there is."""
        for group in groups:
            wait_for(lambda group=group: self._is_drained(group), f"{group} has done everything")

    def finish(self) -> History:
        """Stop every client that lives, and return what all of them saw."""
        for client in self.clients.values():
            if client.lives:
                self.stop(client)
        assert self.broker.stop() == 0
        self._is_broker_up = False
        self._process("broker", "ended", "broker")
        inspection.note(self.recorder, self.broker.data / "store", [TOPIC], id_of, digest_of)
        return read(self.directory)

    def _is_drained(self, group: str) -> bool:
        found = self.read_progress(group)
        return found is not None and all(committed == end for _, committed, end in found)

    def _delivered(self, group: str) -> int:
        return sum(c.done(Verb.DELIVER) for c in self.clients.values() if c.group == group)

    def _call(self, verb: str, path: str, body: object = None) -> Any:
        status, answer = self.broker.call(verb, path, body)
        assert status == 200, (status, answer)
        return answer

    def _nemesis(self, fault: str, target: str) -> None:
        self.recorder.notice(Verb.NEMESIS, fault=fault, target=target)

    def _process(self, target: str, state: str, role: str) -> None:
        self.recorder.notice(Verb.PROCESS, target=target, state=state, role=role)


def _queue(queue: int) -> str:
    return f"/api/v1/topics/{quote(TOPIC)}/queues/{queue}/messages"
