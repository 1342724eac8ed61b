"""A run with the whole product: broker, worker, beat and database, each of which may be disturbed.

Due levels and what nobody decides are the clockwork's affair here, as they are for users.
"""

import http.client
import signal
from pathlib import Path

import psutil

from apps.bridge import control
from apps.bridge.remote import RemoteEngine
from apps.clockwork.models import Outcome
from tests.clockwork.machine import Machine, kill_hard
from tests.outcomes.calls import Reply
from tests.outcomes.field import (
    FAILURES_MAX,
    LEASED,
    RETRY_DELAYS_MS,
    SENT_BACK,
    TOPICS,
    VARIABLES,
    Field,
    wait_for,
)
from tests.process.boxes import all_frozen, memory_limit
from tests.web.product import lives

_RETRY_S = 0.05
# The task that is due most often: whether worker and beat work is seen by its runs.
_TASK = "delays.deliver_levels"
_CHILD = "a child of the worker"
# More than one worker's steps may ask for by themselves in between.
_TICKS = 5
_ASK_S = 0.2
PARTS = ("broker", "worker", "beat", "postgres")
# Less than one step of the clockwork touches.
_STARVED_BYTES = 256 * 1024


class ProductField(Field):
    """A run around one product; `data` is its directory, short enough for a socket's path."""

    def __init__(self, directory: Path, seed: int, data: Path) -> None:
        """Prepare nothing: the product makes its own database and store."""
        super().__init__(directory, seed)
        self._data = data
        self.machine: Machine | None = None

    @property
    def running(self) -> Machine:
        """Return the product that runs."""
        assert self.machine is not None
        return self.machine

    def start(self) -> None:
        """Start it with short times, and make topics and groups by REST."""
        self.machine = Machine(self._data, worker_processes=2, **VARIABLES)
        self.running.product.wait_until_ready()
        self._wait_for_steps()
        for part in PARTS:
            self.process(part, "started")
        for topic in TOPICS:
            self._put(f"/api/v1/topics/{topic}", {"queue_count": 1})
        policy = {"retry_policy": "custom", "retry_delays_ms": list(RETRY_DELAYS_MS)}
        for group in (LEASED, SENT_BACK):
            self._put(f"/api/v1/groups/{group}", {"retry_max": FAILURES_MAX, **policy})

    def stop(self) -> None:
        """Stop it in order."""
        assert self.running.product.interrupt() == 0, self.running.product.output[-4_000:]
        for part in PARTS:
            self.process(part, "ended")

    @property
    def store(self) -> Path:
        """Return where the broker's store is."""
        return self._data / "store"

    def end(self) -> None:
        """Leave no process behind."""
        if self.machine is not None:
            self.machine.product.kill_everything()
            # Kept with the histories, for whoever asks why.
            (self.directory / "product.log").write_text(self.running.product.output)

    def ask(self, method: str, path: str, document: object) -> Reply | None:
        """Make a request; None where there is no answer."""
        try:
            status, _, found = self.running.product.request(method, path, document)
        except (OSError, http.client.HTTPException):
            self.is_drained.wait(_RETRY_S)
            return None
        return Reply(status, found)

    def connect(self) -> RemoteEngine:
        """Return what the clockwork asks the broker by."""
        token = control.token_of((self._data / "secret-key").read_text().strip())
        return RemoteEngine("127.0.0.1", self.running.product.port, token=token)

    # What is done to it.

    def kill(self, part: str) -> None:
        """Kill a part, and wait until the product has another, which does its work.

        How long that takes is the machine's affair, and not what lateness is measured against.
        """
        killed = self.running.product.child(part)
        children = killed.children(recursive=True)
        self.nemesis("kill", part)
        kill_hard(killed)
        self.process(part, "ended")
        wait_for(lambda: self._is_new(part, killed), f"{part} is started again")
        # What a killed worker left behind ends too, at the latest when it has done its step.
        wait_for(lambda: not any(map(lives, children)), f"the children of {part} end")
        self._wait_for_steps()
        self.process(part, "started")

    def kill_a_child(self, part: str) -> None:
        """Kill a process that a part keeps, and not the part."""
        parent = self.running.product.child(part)
        wait_for(parent.children, f"{part} has a child")
        child = self.rng.choice(parent.children(recursive=True))
        self.nemesis("kill a child", part)
        kill_hard(child)
        # Whatever step it was in is another's once its lease is over.
        self.process(_CHILD, "ended")
        self._wait_for_steps()
        self.process(_CHILD, "started")

    def pause(self, part: str, seconds: float) -> None:
        """Let a part and its children stand still for a while."""
        found = self.running.product.child(part)
        family = [found, *found.children(recursive=True)]
        self.nemesis("pause", part)
        for process in family:
            process.suspend()
        self.is_over.wait(seconds)
        self.nemesis("resume", part)
        for process in family:
            process.resume()

    def freeze_everything(self, seconds: float) -> str:
        """Let the whole product stand still at one moment; return how that was done."""
        supervisor = self.running.product.process.pid
        frozen = [supervisor, *(process.pid for process in self.running.product.family())]
        for part in PARTS:
            self.nemesis("pause", part)
        with all_frozen(frozen) as how:
            self.is_over.wait(seconds)
            for part in PARTS:
                self.nemesis("resume", part)
        return how

    def starve_a_child(self, part: str) -> None:
        """Take all further memory from a process that a part keeps, until the kernel kills it."""
        with memory_limit(_STARVED_BYTES) as box:
            parent = self.running.product.child(part)
            wait_for(parent.children, f"{part} has a child")
            self.nemesis("kill a child", part)
            box.take(self.rng.choice(parent.children()).pid)
            wait_for(lambda: box.kills, "a process was killed for want of memory")
        self.process(_CHILD, "ended")
        self._wait_for_steps()
        self.process(_CHILD, "started")

    def stop_database(self) -> None:
        """Stop the database at once, as a crash of it does; the product starts it again."""
        stopped = self.running.product.child("postgres")
        self.nemesis("stop", "postgres")
        stopped.send_signal(signal.SIGQUIT)
        wait_for(lambda: not lives(stopped), "the database has ended")
        self.process("postgres", "ended")
        wait_for(lambda: self._is_new("postgres", stopped), "the database is started again")
        wait_for(self._database_answers, "the database answers")
        self._wait_for_steps()
        self.process("postgres", "started")

    def _is_new(self, part: str, old: psutil.Process) -> bool:
        events = self.running.product.events("part_started")
        newest = [event["pid"] for event in events if event["part"] == part][-1]
        return bool(newest != old.pid and psutil.pid_exists(newest))

    def _wait_for_steps(self) -> None:
        """Return when beat has sent ticks, and a step was done that began after this was called.

        Two more steps than there are: one may have been under way.
        """
        sent = self.running.ticks()
        wait_for(lambda: self._pausing() and self.running.ticks() >= sent + _TICKS, "beat ticks")
        done = self._steps_done()
        wait_for(lambda: self._pausing() and self._steps_done() >= done + 2, "steps are done")

    def _steps_done(self) -> int:
        query = "SELECT count(*) FROM clockwork_taskrun WHERE task = %s AND outcome = %s"
        ((count,),) = self.running.ask(query, _TASK, Outcome.DONE)
        return int(count)

    def _pausing(self) -> bool:
        """Let the product work meanwhile: asking costs it more than it costs us."""
        self.is_drained.wait(_ASK_S)
        return True

    def _database_answers(self) -> bool:
        reply = self.ask("GET", "/api/v1/topics", None)
        return reply is not None and reply.status == 200

    def _put(self, path: str, document: object) -> None:
        reply = self.ask("PUT", path, document)
        assert reply is not None
        assert reply.status in (200, 201), reply
