"""House rules a machine can check."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.engine import failpoints

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("apps", "mqweb", "sdk/src", "tests", "benchmarks", "tools")
FILE_LINES_MAX = 600
UNFINISHED = ("TODO", "FIXME", "XXX")


def sources(*folders: str) -> Iterator[Path]:
    """Yield our Python files, migrations left out."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts and "build" not in path.parts:
                yield path


def untidy(path: Path, text: str) -> list[str]:
    """List what breaks the house rules in one file."""
    found = []
    tree = ast.parse(text)
    if text.strip() and not ast.get_docstring(tree):
        found.append(f"{path}: no module docstring")
    if text.count("\n") > FILE_LINES_MAX:
        found.append(f"{path}: more than {FILE_LINES_MAX} lines")
    found += [f"{path}: {word} without a ticket" for word in UNFINISHED if f"# {word}" in text]
    return found


def test_every_file_is_tidy() -> None:
    found = [fault for path in sources(*FOLDERS) for fault in untidy(path, path.read_text())]

    assert found == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x = 1\n", "no module docstring"),
        ('"""Doc."""\n' + "x = 1\n" * FILE_LINES_MAX, "lines"),
        (f'"""Doc."""\n# {UNFINISHED[0]} later\n', "TODO"),
    ],
)
def test_an_untidy_file_is_caught(text: str, fault: str) -> None:
    (found,) = untidy(Path("planted.py"), text)

    assert fault in found


@pytest.mark.parametrize("name", sorted(failpoints.NAMES))
def test_every_failpoint_is_passed_in_the_engine(name: str) -> None:
    users = [
        path
        for path in sources("apps/engine")
        if path.name != "failpoints.py" and f'"{name}"' in path.read_text()
    ]

    assert users != []


def test_nothing_of_the_product_waits_in_a_way_that_loses_cancellations() -> None:
    """`wait_for` of Python 3.11 swallows a cancellation that comes as it is done."""
    users = [path for path in sources("apps", "mqweb", "sdk/src") if "wait_for" in _calls(path)]

    assert users == []


def _calls(path: Path) -> set[str]:
    """Return the names of asyncio that a file calls."""
    return {
        node.func.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "asyncio"
    }


def test_the_engine_asks_for_the_time_in_one_place() -> None:
    askers = {
        path.name
        for path in sources("apps/engine")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "time"
        and node.attr in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter")
    }

    assert askers == {"clock.py"}
