"""A member that is stopped for longer than the lease, and goes on as if nothing had happened."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mqclient import PushConsumer

from tests.sdk.fake_broker import FakeBroker
from tests.sdk.push.hearing import WAIT_S, Ear, wait_until

SCRIPT = Path(__file__).with_name("paused_member.py")
BODIES = [b"%d" % number for number in range(6)]


def run(broker: FakeBroker, ear: Ear, *more: str) -> list[list[str]]:
    """Stop a member inside a listener, let another read the queue; return what the first says."""
    broker.groups["g"].is_ordered = True
    broker.put("orders", 0, *BODIES)
    broker.assign("g", {"a": {"orders": [0]}})
    # After the first answers the member learns nothing more: it has its clock alone.
    held = [broker.fault(name, "hold", times=99, skip=1) for name in ("members/a", "client_id=a")]
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), broker.url, "a", *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        said = [process.stdout.readline()]
        # It has everything it may learn, and asks for more, before its lock becomes a short one.
        assert all(fault.fired.wait(WAIT_S) for fault in held)
        # Long enough that what it asked for last is answered before another may have the lock.
        broker.groups["g"].lease_s = 2.0
        wait_for_renewals(broker, 2)
        process.send_signal(signal.SIGSTOP)
        broker.assign("g", {"b": {"orders": [0]}})
        with PushConsumer(
            broker.url,
            group="g",
            topics="orders",
            listener=ear,
            client_id="b",
            ordered=True,
            lock_ask_s=0.05,
        ):
            ear.wait_for_count(len(BODIES))
        held.append(broker.fault("locks:acquire", "hold", times=99))
        process.stdin.write("\n")
        process.stdin.flush()
        process.send_signal(signal.SIGCONT)
        said.append(process.stdout.readline())
        assert held[-1].fired.wait(WAIT_S)
        for fault in held:
            fault.release()
            fault.times = 0
        process.stdin.close()
        said += process.stdout.readlines()
    assert process.returncode == 0
    return [line.split() for line in said]


def wait_for_renewals(broker: FakeBroker, count: int) -> None:
    """Return when locks were asked for so often again: all but the last one are answered."""
    before = len(broker.requests)
    wait_until(
        lambda: sum("locks:acquire" in line for line in broker.requests[before:]) >= count,
    )


@pytest.mark.process
def test_a_stopped_process_starts_no_listener_on_what_another_has_by_now(
    broker: FakeBroker,
) -> None:
    ear = Ear()

    said = run(broker, ear)

    epoch = said[0][1]
    assert said == [["start", epoch, "0", "0"], ["end", epoch, "0", "0"]]
    assert ear.bodies == BODIES
    assert all(context.epoch is not None and context.epoch > int(epoch) for context in ear.contexts)
    assert broker.committed["g", "orders", 0] == len(BODIES)


@pytest.mark.process
def test_a_process_that_looks_at_no_lock_is_caught(broker: FakeBroker) -> None:
    said = run(broker, Ear(), "trusting")

    assert ["start", said[0][1], "1", "0"] in said
