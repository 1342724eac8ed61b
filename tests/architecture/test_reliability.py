"""docs/RELIABILITY.md has every row of the fault table, and names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "RELIABILITY.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROWS = (
    *(f"P{number}" for number in range(1, 15)),
    *(f"S{number}" for number in range(1, 11)),
    *(f"E{number}" for number in range(1, 10)),
    "N2",
    *(f"L{number}" for number in range(1, 9)),
    *(f"H{number}" for number in (*range(1, 9), 10, 11)),
)
_TESTS, _RUNS, _CELLS = 2, 3, 6


def cells(row: str) -> list[str]:
    """Return the cells of a fault's one row; figures have rows of that name, of other widths."""
    lines = [line for line in DOCUMENT.splitlines() if line.startswith(f"| {row} |")]
    found = [line.strip("|").split("|") for line in lines]
    rows = [parts for parts in found if len(parts) == _CELLS]
    assert len(rows) == 1, f"{row}: {len(rows)} rows"
    return [cell.strip() for cell in rows[0]]


@cache
def found_tests(path: str) -> dict[str, bool]:
    """Return every test of a file, and whether it belongs to `make crash`."""
    tree = ast.parse((ROOT / path).read_text())
    marks = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(name, ast.Name) and name.id == "pytestmark" for name in node.targets)
    ]
    is_all_long = any(map(is_long, marks))
    return {
        node.name: is_all_long or any(map(is_long, node.decorator_list))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def is_long(mark: ast.expr) -> bool:
    """Say whether a mark of a whole test is `crash`; one of a single case is none."""
    if isinstance(mark, ast.List):
        return any(map(is_long, mark.elts))
    return isinstance(mark, ast.Attribute) and mark.attr == "crash"


@pytest.mark.parametrize("row", ROWS)
def test_a_row_names_tests_that_run_where_it_says(row: str) -> None:
    named = NAMED.findall(cells(row)[_TESTS])
    marks = set()
    for path, name in named:
        assert (ROOT / path).is_file(), path
        assert name in found_tests(path), f"{path} has no {name}"
        marks.add(found_tests(path)[name])
    runs = {
        frozenset(): "not yet",
        frozenset({False}): "slice",
        frozenset({True}): "nightly",
        frozenset({False, True}): "slice and nightly",
    }[frozenset(marks)]

    assert cells(row)[_RUNS] == runs
    assert named or cells(row)[_TESTS] == "not yet"


def test_every_named_test_is_in_a_row() -> None:
    in_rows = [pair for row in ROWS for pair in NAMED.findall(cells(row)[_TESTS])]

    assert set(NAMED.findall(DOCUMENT)) == set(in_rows)
    assert len(in_rows) > 60


@pytest.mark.parametrize("number", range(1, 15))
def test_every_invariant_has_its_files(number: int) -> None:
    (line,) = [line for line in DOCUMENT.splitlines() if line.startswith(f"| INV-{number} ")]
    files = re.findall(r"\w+\.py", line)

    assert files
    assert f"INV-{number}" in (ROOT / "tests" / "histories" / files[0]).read_text()
    assert all((ROOT / "tests" / "histories" / name).is_file() for name in files)


def test_a_row_that_does_not_exist_is_caught() -> None:
    with pytest.raises(AssertionError, match="0 rows"):
        cells("P99")
