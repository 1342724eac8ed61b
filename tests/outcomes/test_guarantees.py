"""At most once, at least once, exactly once: the consumer of each is killed in the middle.

The examples are run as their first lines say, and what they did is counted here once more: by a
ledger that a consumer of the example wrote while this test killed it.
"""

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.celery.brokers import Mqweb

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).parents[2] / "examples"
_TIMEOUT_S = 180


def run_example(name: str, port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it as its first lines say."""
    command = [sys.executable, str(EXAMPLES / name), "--server", f"http://127.0.0.1:{port}"]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S
    )
    print(done.stdout, done.stderr)
    return done


def port_of(product: Mqweb) -> int:
    port = urlsplit(product.url()).port
    assert port is not None
    return port


def counted(output: str) -> tuple[int, int]:
    """Return how many were lost and how many doubled."""
    (line,) = [line for line in output.splitlines() if "lost" in line]
    lost, _, _, doubled, *_ = line.replace(",", " ,").split()
    return int(lost), int(doubled)


def test_at_most_once_loses_some_and_doubles_none(product: Mqweb) -> None:
    done = run_example("at_most_once.py", port_of(product), "--payments", "40", "--kills", "1")

    assert done.returncode == 0
    assert "consumer killed 1 times" in done.stdout
    lost, doubled = counted(done.stdout)
    assert lost > 0
    assert doubled == 0


def test_at_least_once_doubles_some_and_loses_none(product: Mqweb) -> None:
    done = run_example("at_least_once.py", port_of(product), "--payments", "40", "--kills", "1")

    assert done.returncode == 0
    assert "consumer killed 1 times" in done.stdout
    lost, doubled = counted(done.stdout)
    assert lost == 0
    assert doubled > 0


def test_exactly_once_loses_none_and_doubles_none(product: Mqweb) -> None:
    done = run_example("exactly_once.py", port_of(product), "--payments", "40", "--kills", "1")

    assert done.returncode == 0
    assert "consumer killed 1 times" in done.stdout
    assert counted(done.stdout) == (0, 0)
    # It is not that nothing came twice: it did, and nothing happened.
    assert "came again and was booked before" in done.stdout
