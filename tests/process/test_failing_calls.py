"""Writes and reads that the kernel refuses to a whole broker, one by one, by strace.

Row E2 of the fault table. A refused write ends the process like a refused sync; a refused read is
one request's affair. Where nothing may be traced, `test_refusals.py` has a disk of its own that
refuses both.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.bridge.exits import Exit
from tests.engine.crash.test_syscall_kill import strace
from tests.process.limited import TICKS, TOPIC, WAIT_S, Limited, until
from tests.process.test_failing_disk import judge_restart, send_until_it_fails
from tests.rounds import report

pytestmark = [pytest.mark.process, pytest.mark.crash]
SEGMENT = f"{0:020d}"


@contextmanager
def refused(broker: Limited, calls: str, number: int, trace: Path) -> Iterator[None]:
    """Refuse the Nth such call on the log that the engine's thread makes."""
    command = [strace(), "-qq", "-o", str(trace), "-p", str(broker.pid)]
    command += ["-P", str(broker.data / "store" / "commitlog" / SEGMENT), "-e", f"trace={calls}"]
    with subprocess.Popen([*command, "-e", f"inject={calls}:error=EIO:when={number}"]) as tracer:
        status = Path(f"/proc/{broker.pid}/status")
        until(lambda: "TracerPid:\t0" not in status.read_text())
        try:
            yield
        finally:
            tracer.terminate()


def started(data: Path) -> Limited:
    broker = Limited(data)
    broker.prepare(**{TOPIC: 1, TICKS: 1})
    broker.start()
    return broker


@pytest.mark.parametrize("number", [1, 7])
def test_a_write_the_kernel_refuses_ends_the_process_and_no_acknowledged_message(
    tmp_path: Path, number: int
) -> None:
    broker, trace = started(tmp_path / "data"), tmp_path / "trace"

    with refused(broker, "pwrite64,pwritev2,pwritev", number, trace):
        taken, failed = send_until_it_fails(broker)
        code = broker.exit_code(within_s=WAIT_S)

    assert "EIO" in trace.read_text()
    assert code == Exit.FATAL
    (event,) = broker.events("engine_failed")
    assert event["code"] == "write_failed"
    judge_restart(broker, taken, failed)
    report(f"E2 write {number}", acked=len(taken), acked_lost=0)


def test_a_read_the_kernel_refuses_fails_one_request(tmp_path: Path) -> None:
    broker, trace = started(tmp_path / "data"), tmp_path / "trace"
    bodies = [f"{number:06d}" for number in range(8)]
    assert [broker.send(body)[0] for body in bodies] == [201] * 8
    path = f"/api/v1/topics/{TOPIC}/queues/0/messages?offset=0"

    with refused(broker, "pread64,preadv,preadv2", 2, trace):
        answers = [broker.call("GET", path) for _ in range(4)]
        sent = broker.send("after.")

    assert trace.read_text().count("EIO") == 1
    # The second request has met it: the others, before and after, go on.
    assert [status for status, _ in answers] == [200, 500, 200, 200]
    assert answers[1][1]["code"] == "store_damaged"
    assert sent[0] == 201
    assert broker.events("engine_failed") == []
    assert broker.drain() == [*bodies, "after."]
    assert broker.stop() == 0
    report("E2 read", requests=len(answers), failed=1)
