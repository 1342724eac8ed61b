"""Disks whose syncs fail or hang under a whole broker: what clients are told, and what is left."""

import http.client
import json
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from apps.bridge.exits import Exit
from tests.process.limited import TICKS, TOPIC, WAIT_S, Limited, until
from tests.process.product import Unanswered

pytestmark = pytest.mark.process
HANGING = ("tests/process/hanging_broker.py",)
STEADY_S = 5.0


def send_until_it_fails(broker: Limited) -> tuple[list[str], list[tuple[str, object]]]:
    """Send one by one; return what was acknowledged, and what came of the sends after that."""
    taken: list[str] = []
    failed: list[tuple[str, object]] = []
    for number in range(200):
        name = f"{number:06d}"
        try:
            status, answer = broker.send(name)
        except Unanswered as error:
            failed.append((name, str(error)))
            return taken, failed
        if status == 201:
            assert not failed, "a send was acknowledged after a sync had failed"
            taken.append(name)
        else:
            failed.append((name, answer))
    raise AssertionError("no sync failed")


def judge_restart(broker: Limited, taken: list[str], failed: list[tuple[str, object]]) -> None:
    """Check that what was acknowledged is there in order, and of the rest at most what was sent."""
    broker.start()
    found = broker.drain()
    assert found[: len(taken)] == taken
    assert set(found[len(taken) :]) <= {name for name, _ in failed}
    assert broker.send("after.")[0] == 201
    assert broker.stop() == 0


@pytest.mark.parametrize(
    "nth", [pytest.param(3), *(pytest.param(nth, marks=pytest.mark.crash) for nth in (1, 2, 8, 30))]
)
def test_the_nth_failed_sync_ends_the_process_and_no_acknowledged_message(
    tmp_path: Path, nth: int
) -> None:
    broker = Limited(tmp_path / "data")
    broker.prepare(**{TOPIC: 1, TICKS: 1})
    broker.start(MQWEB_FAILPOINTS=f"log.before_sync=error({nth})")

    taken, failed = send_until_it_fails(broker)

    assert broker.exit_code(within_s=WAIT_S) == Exit.FATAL
    (event,) = broker.events("engine_failed")
    assert event["code"] == "sync_failed"
    assert failed
    judge_restart(broker, taken, failed)


@pytest.mark.crash
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("nth", [1, 5])
def test_a_sync_the_kernel_fails_is_not_tried_again(tmp_path: Path, nth: int) -> None:
    broker = Limited(tmp_path / "data")
    broker.prepare(**{TOPIC: 1, TICKS: 1})
    broker.start()
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-qq", "-e", "trace=fdatasync", "-p", str(broker.pid)]
    inject = f"inject=fdatasync:error=EIO:when={nth}"
    with subprocess.Popen([*command, "-e", inject, "-o", str(trace)]) as tracer:
        until(lambda: _is_traced(broker.pid))
        taken, failed = send_until_it_fails(broker)
        code = broker.exit_code(within_s=WAIT_S)
        tracer.wait(10)

    lines = [line for line in trace.read_text().splitlines() if "fdatasync(" in line]
    assert "EIO" in lines[-1], lines[-3:]
    assert code == Exit.FATAL
    judge_restart(broker, taken, failed)


def _is_traced(pid: int) -> bool:
    """Say whether a tracer has taken hold of every thread."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if "TracerPid:\t0" in (task / "status").read_text():
            return False
    return True


class Sender(threading.Thread):
    """Sends one message and keeps what it was told."""

    def __init__(self, broker: Limited, message: dict[str, Any]) -> None:
        super().__init__()
        self._broker = broker
        self._message = message
        self.status = 0
        self.answer: Any = None

    def run(self) -> None:
        path = f"/api/v1/topics/{TOPIC}/messages"
        self.status, self.answer = self._broker.call("POST", path, {"messages": [self._message]})


def test_a_disk_that_hangs_is_told_and_nothing_is_lost_when_it_goes_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker = Limited(data, *HANGING)
    broker.prepare(**{TOPIC: 1, TICKS: 1})
    broker.start(MQWEB_FLUSH_TIMEOUT_MS="3500")
    assert broker.send("before")[0] == 201

    (data / "hang").touch()
    numbered = {"body": "unsure", "queue": 0, "producer_id": "p", "producer_seq": 1}
    senders = [Sender(broker, numbered), Sender(broker, {"body": "second", "queue": 0})]
    senders[0].start()
    until((data / "hung").exists)
    senders[1].start()
    noticed_s = until(lambda: broker.call("GET", "/readyz")[0] == 503, within_s=WAIT_S)
    status, problem = broker.call("GET", "/readyz")
    assert (status, problem["code"]) == (503, "sync_stuck")
    assert broker.call("GET", "/healthz")[0] == 200
    for sender in senders:
        sender.join()
        assert (sender.status, sender.answer["code"]) == (503, "flush_timeout")
        assert sender.answer["retriable"]
    # Nobody piles up more; this one is refused with nothing written.
    status, problem = broker.send("never.")
    assert (status, problem["code"]) == (503, "sync_stuck")

    (data / "hang").unlink()
    thawed_s = until(lambda: broker.call("GET", "/readyz")[0] == 200, within_s=WAIT_S)
    print(f"noticed after {noticed_s:.1f} s, ready {thawed_s:.1f} s after the thaw")

    again = Sender(broker, numbered)
    again.run()
    assert (again.status, again.answer["results"][0]["repeat"]) == (201, True)
    assert broker.send("after.")[0] == 201
    assert broker.drain() == ["before", "unsure", "second", "after."]
    assert broker.stop() == 0


@pytest.mark.crash
@pytest.mark.parametrize("delay_ms", [50, 200, 1_000])
def test_a_slow_disk_widens_the_group_of_a_sync(tmp_path: Path, delay_ms: int) -> None:
    data = tmp_path / "data"
    broker = Limited(data, *HANGING)
    broker.prepare(**{TOPIC: 1, TICKS: 1})
    broker.start()
    syncs = _syncs(broker)
    (data / "slow").write_text(str(delay_ms))
    start = time.monotonic()

    rounds, width = 3, 24
    for turn in range(rounds):
        senders = [Sender(broker, {"body": f"{turn}-{n:04d}"}) for n in range(width)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
            assert sender.status == 201, sender.answer

    took_s = time.monotonic() - start
    shared = rounds * width / max(1, _syncs(broker) - syncs)
    print(f"{delay_ms} ms a sync: {rounds * width / took_s:.0f} a second, {shared:.0f} a sync")
    assert shared > 2
    (data / "slow").unlink()
    assert len(broker.drain()) == rounds * width
    assert broker.stop() == 0


def _syncs(broker: Limited) -> int:
    lines = broker.call("GET", "/metrics")[1].decode().splitlines()
    return int(next(float(line.split()[-1]) for line in lines if line.startswith("mqweb_syncs")))


class Steady(threading.Thread):
    """Sends one message after the other on a connection of its own."""

    def __init__(self, broker: Limited, end_s: float) -> None:
        super().__init__()
        self._broker, self._end_s = broker, end_s
        self.count = 0

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._broker.port, timeout=30)
        body = json.dumps({"messages": [{"body": "x" * 100}]})
        headers = {"Content-Type": "application/json"}
        while time.monotonic() < self._end_s:
            connection.request("POST", f"/api/v1/topics/{TOPIC}/messages", body, headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 201
            self.count += 1
        connection.close()


@pytest.mark.crash
def test_64_senders_share_the_syncs_of_a_slow_disk(tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker = Limited(data, *HANGING)
    broker.prepare(**{TOPIC: 1, TICKS: 1})
    broker.start()
    (data / "slow").write_text("50")
    syncs = _syncs(broker)
    start = time.monotonic()
    senders = [Steady(broker, start + STEADY_S) for _ in range(64)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    took_s = time.monotonic() - start

    count = sum(sender.count for sender in senders)
    shared = count / (_syncs(broker) - syncs)
    print(f"{count / took_s:.0f} acknowledged a second, {shared:.0f} a sync")
    # What a second brings is the machine's; that senders share syncs is ours.
    assert shared >= 20
    (data / "slow").unlink()
    assert broker.stop() == 0
