"""docs/JOBS.md has each job it tells of, and the columns of each of its tables as they are."""

from pathlib import Path

from apps.pipelines.catalogue import JOBS
from apps.pipelines.columns import Table
from apps.pipelines.tables import TABLES

_ROOT = Path(__file__).parents[2]
_TEXT = (_ROOT / "docs" / "JOBS.md").read_text()
_TOLD = [job for job in JOBS.values() if f"\n## {job.name}\n" in _TEXT]
_SURELY_TOLD = JOBS.keys() - {"ingest", "archive", "compact"}


def _columns(table: Table) -> str:
    rows = "".join(
        f"| `{column.name}` | {column.kind.value}{', null' if column.is_nullable else ''} "
        f"| {column.meaning} |\n"
        for column in table.columns
    )
    return f"| column | type | meaning |\n|---|---|---|\n{rows}"


def test_jobs_are_told_of_with_the_columns_of_their_tables() -> None:
    assert {job.name for job in _TOLD} >= _SURELY_TOLD
    for job in _TOLD:
        for name in job.writes:
            table = TABLES[name]
            heading = f"### `{name}`\n\n{table.meaning[0].upper()}{table.meaning[1:]}.\n\n"
            assert heading + _columns(table) in _TEXT


def test_each_question_names_a_test_that_exists() -> None:
    tests = _ROOT / "tests" / "spark"
    files = [path for part in ("jobs", "deliveries") for path in (tests / part).glob("test_*.py")]
    known = "".join(path.read_text() for path in files)
    rows = _TEXT.partition("\n## Questions and answers\n")[2].partition("\n## ")[0].splitlines()
    named = [cell for row in rows for cell in row.split("`") if cell.startswith("test_")]
    assert len(named) >= 9
    for name in named:
        assert f"\ndef {name}(" in known
