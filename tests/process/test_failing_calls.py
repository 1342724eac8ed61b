"""Writes, reads and memory that the kernel refuses to a whole broker, call by call, by strace.

Rows E2 and E6 of the fault table. A refused write ends the process like a refused sync; a refused
read is one request's affair, and so is memory that the kernel does not give. Where nothing may be
traced, `test_refusals.py` has a disk of its own that refuses writes and reads.
"""

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apps.bridge.exits import Exit
from tests.engine.crash.test_syscall_kill import strace
from tests.process.limited import TICKS, TOPIC, WAIT_S, Limited, until
from tests.process.product import Unanswered
from tests.process.test_failing_disk import judge_restart, send_until_it_fails
from tests.process.test_no_memory import ENDS, drained
from tests.rounds import report

pytestmark = [pytest.mark.process, pytest.mark.crash]
SEGMENT = f"{0:020d}"
BODY_BYTES = 400_000


@contextmanager
def refused(
    broker: Limited, calls: str, when: str, trace: Path, *, error: str = "EIO", path: Path | None
) -> Iterator[None]:
    """Refuse the Nth such call that the engine's thread makes, on one file or wherever it is."""
    command = [strace(), "-qq", "-o", str(trace), "-p", str(broker.pid), "-e", f"trace={calls}"]
    if path is not None:
        command += ["-P", str(path)]
    with subprocess.Popen([*command, "-e", f"inject={calls}:error={error}:when={when}"]) as tracer:
        status = Path(f"/proc/{broker.pid}/status")
        until(lambda: "TracerPid:\t0" not in status.read_text())
        try:
            yield
        finally:
            tracer.terminate()


def log_of(broker: Limited) -> Path:
    """Return the first segment, the only one that there is."""
    return broker.data / "store" / "commitlog" / SEGMENT


def started(data: Path) -> Limited:
    broker = Limited(data)
    broker.prepare(**{TOPIC: 1, TICKS: 1})
    broker.start()
    return broker


@pytest.mark.parametrize(("number", "error"), [(1, "EIO"), (7, "EIO"), (3, "ENOMEM")])
def test_a_write_the_kernel_refuses_ends_the_process_and_no_acknowledged_message(
    tmp_path: Path, number: int, error: str
) -> None:
    broker, trace = started(tmp_path / "data"), tmp_path / "trace"

    calls = "pwrite64,pwritev2,pwritev"
    with refused(broker, calls, str(number), trace, error=error, path=log_of(broker)):
        taken, failed = send_until_it_fails(broker)
        code = broker.exit_code(within_s=WAIT_S)

    assert error in trace.read_text()
    assert code == Exit.FATAL
    (event,) = broker.events("engine_failed")
    assert event["code"] == "write_failed"
    judge_restart(broker, taken, failed)
    report(f"E2 write {number} {error}", acked=len(taken), acked_lost=0)


@pytest.mark.parametrize(
    ("error", "problem"), [("EIO", (500, "store_damaged")), ("ENOMEM", (503, "out_of_means"))]
)
def test_a_read_the_kernel_refuses_fails_one_request(
    tmp_path: Path, error: str, problem: tuple[int, str]
) -> None:
    broker, trace = started(tmp_path / "data"), tmp_path / "trace"
    bodies = [f"{number:06d}" for number in range(8)]
    assert [broker.send(body)[0] for body in bodies] == [201] * 8
    path = f"/api/v1/topics/{TOPIC}/queues/0/messages?offset=0"

    reads = "pread64,preadv,preadv2"
    with refused(broker, reads, "2", trace, error=error, path=log_of(broker)):
        answers = [broker.call("GET", path) for _ in range(4)]
        sent = broker.send("after.")

    assert trace.read_text().count(error) == 1
    # The second request has met it: the others, before and after, go on.
    assert [status for status, _ in answers] == [200, problem[0], 200, 200]
    assert answers[1][1]["code"] == problem[1]
    assert sent[0] == 201
    assert broker.events("engine_failed") == []
    assert broker.drain() == [*bodies, "after."]
    assert broker.stop() == 0
    report(f"E2 read {error}", requests=len(answers), failed=1)


def test_memory_the_kernel_does_not_give_refuses_large_sends_or_ends_and_loses_nothing(
    tmp_path: Path,
) -> None:
    broker, trace = started(tmp_path / "data"), tmp_path / "trace"
    assert broker.send("before")[0] == 201
    taken, told = ["before"], Counter[str]()

    with refused(broker, "mmap,brk", "1+", trace, error="ENOMEM", path=None):
        # Larger ones each time, so that what was given back before does not do.
        for number in range(1, 9):
            name = f"{number:06d}"
            try:
                status, answer = broker.send(name + "." * number * BODY_BYTES)
            except Unanswered:
                told["unanswered"] += 1
                continue
            told[str(status) if status < 400 else answer["code"]] += 1
            if status == 201:
                taken.append(name)

    assert "ENOMEM" in trace.read_text()
    assert told["out_of_means"] + told["unanswered"], told
    assert set(told) <= {"201", "out_of_means", "overloaded", "unanswered", "stopping"}, told
    try:
        # Libraries in C do not all look at what they are given: that ends it like a kill.
        assert broker.exit_code(within_s=0.5) in {*ENDS, -signal.SIGSEGV, -signal.SIGABRT}
        broker.start()
    except subprocess.TimeoutExpired:
        # It lives, and with memory again it takes what it refused.
        until(lambda: broker.send("after.")[0] == 201)
    found = drained(broker)
    assert [name for name in found if name in taken] == taken
    assert len(found) == len(set(found))
    assert broker.stop() == 0
    report("E6 no memory", refused=told["out_of_means"], acked=len(taken), acked_lost=0)
