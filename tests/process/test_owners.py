"""One process owns a store: a leaked child, one that stands still, and two that start together.

Rows P9, L2 and L3 of the fault table. Who stands still keeps the store until somebody ends it, by
hand or with `--take-over`.
"""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from apps.bridge.exits import Exit
from apps.bridge.takeover import CannotTakeOver, end_holder
from apps.engine.config import EngineConfig
from apps.engine.errors import StoreLocked
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.processes import identity
from tests.process.load import QUEUES, TOPIC, Load, judge, stored
from tests.process.product import Broker
from tests.rounds import report, rounds

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
# Starts another program that keeps the lock's descriptor, says its pid, and is killed.
LEAK = """
import fcntl, os, subprocess, sys, time
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(descriptor, fcntl.LOCK_EX)
os.ftruncate(descriptor, 0)
os.pwrite(descriptor, b'{"pid": %d, "started_at": "then"}' % os.getpid(), 0)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         pass_fds=[descriptor], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
time.sleep(600)
"""
# Opens the store whenever it is told to, says whether it got it, and gives it back when told.
RIVAL = """
import asyncio, sys
from pathlib import Path
from apps.engine.errors import StoreLocked
from tests.process.test_owners import opened

async def main():
    for _ in sys.stdin:
        try:
            engine = await opened(Path(sys.argv[1]))
        except StoreLocked:
            print("refused", flush=True)
            sys.stdin.readline()
            continue
        print("won", engine.status().recovery.epoch, flush=True)
        sys.stdin.readline()
        await engine.close()

asyncio.run(main())
"""


async def opened(store: Path) -> LocalEngine:
    """Open a small store."""
    return await LocalEngine.open(
        store, EngineConfig(segment_bytes=MIB, batch_bytes_max=65_536, body_bytes_max=4_096,
                            reserve_bytes=0)
    )  # fmt: skip


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    """Return a broker whose store is made and that does not run."""
    broker = Broker(tmp_path / "data")
    broker.prepare(load=1)
    return broker


def send(broker: Broker, body: str) -> int:
    document = {"messages": [{"body": body}]}
    return broker.call("POST", "/api/v1/topics/load/messages", document)[0]


def bodies(broker: Broker) -> list[str]:
    _, answer = broker.call("GET", "/api/v1/topics/load/queues/0/messages?offset=0&max=100")
    return [message["body"] for message in answer["messages"]]


def test_a_leaked_child_keeps_the_store_and_its_end_frees_it(broker: Broker) -> None:
    path = broker.data / "store" / "lock"
    parent = subprocess.Popen(
        [sys.executable, "-c", LEAK, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()

    try:
        code, said = broker.refused()
    finally:
        os.kill(child, signal.SIGKILL)

    assert code == Exit.HELD
    assert f"process {parent.pid}" in said
    assert "started at then" in said
    # The kernel frees the lock when the child has gone, and a start must not come before that.
    with path.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
    broker.start()
    assert send(broker, "first") == 201
    assert broker.stop() == 0


def test_who_stands_still_keeps_the_store(broker: Broker) -> None:
    broker.start()
    assert send(broker, "before") == 201
    broker.signal(signal.SIGSTOP)

    code, said = broker.refused()
    broker.signal(signal.SIGCONT)

    assert code == Exit.HELD
    assert f"process {broker.pid}" in said
    assert send(broker, "after") == 201
    assert bodies(broker) == ["before", "after"]
    assert broker.stop() == 0
    assert len(broker.openings()) == 1


@pytest.mark.crash
def test_a_take_over_ends_who_stands_still_and_loses_nothing(broker: Broker) -> None:
    broker.start()
    assert send(broker, "before") == 201
    broker.signal(signal.SIGSTOP)
    # On the same port as well, as an operator would repeat the command.
    successor = Broker(broker.data, "manage.py", "broker", "--take-over")
    successor.port = broker.port
    successor.log = broker.data / "successor.log"

    successor.start()

    # Ended before the store was opened, so that it cannot have written since.
    assert broker.ended() == -signal.SIGKILL
    assert took_over(successor) == {"pid": broker.pid, "signal": "SIGKILL"}
    assert bodies(successor) == ["before"]
    assert send(successor, "after") == 201
    assert successor.stop() == 0


def took_over(successor: Broker) -> dict[str, object]:
    """Return what a broker said of the process that it ended; it opened the store after that."""
    lines = [json.loads(line) for line in successor.log.read_text().splitlines() if line[:1] == "{"]
    events = [line for line in lines if line["event"] in ("store_taken_over", "store_opened")]
    assert [event["event"] for event in events] == ["store_taken_over", "store_opened"]
    return {name: events[0][name] for name in ("pid", "signal")}


@pytest.mark.crash
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_who_was_taken_over_under_load_never_writes_again(tmp_path: Path) -> None:
    """Row L2, with a holder that serves: it stops in order, and its last write is before that."""
    broker = Broker(tmp_path / "data")
    broker.prepare(**{TOPIC: QUEUES})
    broker.start()
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-ttt", "-qq", "-p", str(broker.pid), "-o", str(trace)]
    with subprocess.Popen([*command, "-e", "trace=pwritev2,pwrite64,fdatasync,exit_group"]):
        load = Load(broker)
        load.start()
        load.wait_for_acks(200)
        successor = Broker(broker.data, "manage.py", "broker", "--take-over")
        successor.port = broker.port
        successor.log = broker.data / "successor.log"
        successor.launch()
        code = broker.ended()
        assert successor.settled() is None
        load.wait_for_acks(200)
        load.stop()

    assert code in (0, -signal.SIGKILL)
    writes = [line.split() for line in trace.read_text().splitlines() if "pwrite" in line]
    last = max(float(words[1]) for words in writes)
    opened_at = datetime.fromisoformat(successor.openings()[-1]["time"]).timestamp()
    assert last < opened_at
    judge(load.history, stored(successor))
    assert successor.stop() == 0
    report(
        "L2",
        acked=len(load.history.acked),
        acked_lost=0,
        opened_after_the_last_write_ms=int((opened_at - last) * 1_000),
    )


def test_a_reused_number_is_never_ended(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", LEAK, str(path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        child = int(other.stdout.readline())
        # As if the holder had been another process of that number.
        path.write_text(json.dumps({"pid": other.pid, "identity": "earlier boot/1"}))

        with pytest.raises(CannotTakeOver, match=f"process {other.pid} is not the one"):
            end_holder(path)

        assert other.poll() is None
        path.write_text(json.dumps({"pid": other.pid, "identity": identity(other.pid)}))
        assert end_holder(path)
        assert other.wait() == -signal.SIGTERM
        # Its child keeps the lock, and is nobody that the file names.
        with pytest.raises(CannotTakeOver, match="one that it left behind holds"):
            end_holder(path)
        os.kill(child, signal.SIGKILL)


def test_of_two_brokers_that_start_together_one_wins(broker: Broker) -> None:
    rivals = [Broker(broker.data, "manage.py", "broker") for _ in range(2)]
    for number, rival in enumerate(rivals):
        rival.log = broker.data / f"rival-{number}.log"
        rival.launch()

    codes = [rival.settled() for rival in rivals]

    assert sorted(codes, key=str) == [Exit.HELD, None]
    (winner,) = [rival for rival, code in zip(rivals, codes, strict=True) if code is None]
    assert send(winner, "won") == 201
    assert winner.stop() == 0


class Rival:
    """A process that opens a store at a word."""

    def __init__(self, store: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", RIVAL, str(store)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'sdk/src'}"},
        )  # fmt: skip

    def say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def answer(self) -> list[str]:
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()

    def end(self) -> int:
        self._process.communicate()
        return self._process.returncode


def race(store: Path, count: int) -> list[int]:
    """Let two processes open a store at once so often; return the epochs of the winners."""
    rivals = [Rival(store), Rival(store)]
    epochs = []
    for number in range(count):
        for rival in rivals if number % 2 else rivals[::-1]:
            rival.say("open")
        answers = [rival.answer() for rival in rivals]
        assert sorted(answer[0] for answer in answers) == ["refused", "won"], answers
        epochs += [int(answer[1]) for answer in answers if answer[0] == "won"]
        for rival in rivals:
            rival.say("close")
    assert [rival.end() for rival in rivals] == [0, 0]
    return epochs


def test_of_two_who_open_a_store_at_once_one_wins_every_time(tmp_path: Path) -> None:
    epochs = race(tmp_path / "store", 20)

    assert epochs == sorted(set(epochs))


@pytest.mark.crash
def test_of_two_who_open_a_store_at_once_one_wins_every_time_long(tmp_path: Path) -> None:
    count = rounds(200)

    epochs = race(tmp_path / "store", count)

    assert epochs == sorted(set(epochs))
    report("L3", races=count, won_by_one=len(epochs), overlaps=0)


def test_in_one_process_too_a_store_is_opened_once(tmp_path: Path) -> None:
    async def twice() -> None:
        engine = await opened(tmp_path / "store")
        with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
            await opened(tmp_path / "store")
        await engine.close()

    asyncio.run(twice())
