"""The examples of the documents, run as their first lines say, on a product of their own."""

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.celery.brokers import Mqweb
from tests.outcomes.test_guarantees import EXAMPLES, port_of, run_example
from tests.process.product import free_port
from tests.web.product import Product

pytestmark = pytest.mark.process


@pytest.fixture
def reminders() -> ModuleType:
    """Return the example as a module; it is a program, and part of no package."""
    spec = importlib.util.spec_from_file_location("reminders", EXAMPLES / "reminders.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reminders"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def whole_product() -> Iterator[Product]:
    """Run the product with a worker and a beat, which carry out jobs and levels."""
    data = Path(tempfile.mkdtemp(prefix="mqweb-run-"))
    product = Product(data, worker_processes=2)
    product.wait_until_ready()
    yield product
    product.kill_everything()
    shutil.rmtree(data)


def test_exactly_the_orders_of_the_database_are_announced(product: Mqweb) -> None:
    done = run_example("orders_in_transaction.py", port_of(product), "--kills", "2")

    assert done.returncode == 0
    assert "producer killed 2 times" in done.stdout
    assert "exactly the orders of the database were announced" in done.stdout


def test_reminders_and_failing_payments_end_well(whole_product: Product) -> None:
    reminded = run_example("reminders.py", whole_product.port)
    paid = run_example("failing_payments.py", whole_product.port)

    assert reminded.returncode == 0
    assert "every reminder came when it was due" in reminded.stdout
    assert "next year's reminder: delivered" in reminded.stdout
    assert paid.returncode == 0
    assert "8 dead letters: " in paid.stdout
    assert "8 sent again" in paid.stdout
    assert "every payment was made once" in paid.stdout


@pytest.mark.parametrize("name", ["reminders.py", "exactly_once.py"])
def test_without_a_broker_an_example_fails(name: str) -> None:
    done = run_example(name, free_port(), "--timeout-s", "1")

    assert done.returncode != 0
    assert "as promised" not in done.stdout


@pytest.mark.parametrize(
    ("came", "fault"),
    [
        ({}, "a: came 0 times"),
        ({"a": [100, 200]}, "a: came 2 times"),
        ({"a": [99]}, "a: came 1 ms early"),
        ({"a": [100], "b": [100]}, "b: came though it was cancelled"),
    ],
)
def test_the_example_notices_what_is_wrong(
    reminders: ModuleType, came: dict[str, list[int]], fault: str
) -> None:
    wanted = [reminders.Reminder("a", 100), reminders.Reminder("b", None)]

    assert reminders.faults(wanted, came) == [fault]
    assert reminders.faults(wanted, {"a": [100]}) == []
