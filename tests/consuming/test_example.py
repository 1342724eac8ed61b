"""The example of ordered orders: a reader's command on the whole product, and its own judgement."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest
from django.conf import settings

from tests.celery.brokers import Mqweb, database_url, migrated_database
from tests.process.product import free_port

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders_ordered.py"
_TIMEOUT_S = 180


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """Return the example as a module; it is a program, and part of no package."""
    spec = importlib.util.spec_from_file_location("orders_ordered", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def product(embedded_postgres: None, tmp_path: Path) -> Iterator[Mqweb]:
    """Return a broker with a database of its own."""
    with migrated_database("orders") as name:
        url = database_url(settings.DATABASES["default"], name)
        broker = Mqweb(tmp_path / "data", url)
        broker.start()
        yield broker
        broker.stop()


def run_example(port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it as its first lines say."""
    command = [sys.executable, str(EXAMPLE), "--server", f"http://127.0.0.1:{port}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)


@pytest.mark.process
def test_every_order_is_created_paid_and_shipped(product: Mqweb) -> None:
    port = urlsplit(product.url()).port
    assert port is not None
    done = run_example(port, "--orders", "120")

    print(done.stdout, done.stderr)
    assert done.returncode == 0
    assert "every order was created, paid, shipped" in done.stdout
    assert "120 orders, 360 messages" in done.stdout


@pytest.mark.process
def test_without_a_broker_the_example_fails() -> None:
    done = run_example(free_port(), "--timeout-s", "1")

    assert done.returncode != 0
    assert "every order was" not in done.stdout


def handled(example: ModuleType, *steps: tuple[int, str, str, float]) -> list[object]:
    """Return steps of one queue, a second each: order, step, member, begin."""
    return [
        example.Handled(order, step, member, 0, began_s, began_s + 1)
        for order, step, member, began_s in steps
    ]


GOOD = ((0, "created", "a", 0.0), (0, "paid", "a", 1.0), (0, "shipped", "b", 2.0))


def test_the_example_accepts_what_is_in_order(example: ModuleType) -> None:
    again = (*GOOD, (0, "shipped", "b", 3.0))

    assert example.disorder(1, handled(example, *GOOD)) == []
    assert example.disorder(1, handled(example, *again)) == []


@pytest.mark.parametrize(
    "steps",
    [
        (),
        GOOD[:2],
        GOOD[1:],
        (GOOD[0], (0, "shipped", "a", 1.0), (0, "paid", "a", 2.0)),
        (*GOOD[:2], (0, "shipped", "b", 1.5)),
    ],
    ids=["nothing", "no end", "no begin", "shipped before it was paid", "two at once"],
)
def test_the_example_notices_disorder(
    example: ModuleType, steps: tuple[tuple[int, str, str, float], ...]
) -> None:
    (fault,) = example.disorder(1, handled(example, *steps))

    assert fault.startswith(("order 0", "queue 0"))
