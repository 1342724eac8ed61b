"""docs/OPERATIONS.md names everything an operator can set, start or read."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import get_commands

from apps.bridge.exits import Exit
from apps.bridge.flags import FLAGS, SWITCHES
from apps.core.problems import KINDS
from apps.engine import failpoints
from mqweb import env

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = (ROOT / "docs" / "OPERATIONS.md").read_text()
CODE = re.compile(r"`([^`]+)`")
NAMED = set(CODE.findall(OPERATIONS))
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def table_row(name: str) -> list[str]:
    """Return the cells of the table row that begins with a name."""
    rows = [line for line in OPERATIONS.splitlines() if line.startswith(f"| `{name}` |")]
    assert len(rows) == 1, f"{name}: {len(rows)} rows"
    return [cell.strip() for cell in rows[0].strip("|").split("|")]


@pytest.mark.parametrize("variable", env.VARIABLES, ids=lambda variable: variable.name)
def test_every_variable_has_a_row_with_its_default(variable: env.Variable) -> None:
    _, default, _ = table_row(variable.name)

    if variable.default:
        assert default == f"`{variable.default}`"


@pytest.mark.parametrize("flag", sorted(FLAGS))
def test_every_flag_has_a_row_with_its_variable(flag: str) -> None:
    assert table_row(flag)[1].startswith(f"`{FLAGS[flag]}`")


@pytest.mark.parametrize("switch", sorted(SWITCHES))
def test_every_switch_has_a_row(switch: str) -> None:
    assert table_row(switch)


def test_every_command_of_ours_is_named() -> None:
    ours = {name for name, app in get_commands().items() if str(app).startswith("apps.")}
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)

    wanted = {f"manage.py {name}" for name in ours} | {f"make {name}" for name in targets}

    assert len(wanted) >= 9
    assert wanted <= NAMED


@pytest.mark.parametrize("code", list(Exit), ids=lambda code: code.name)
def test_every_exit_code_is_named(code: Exit) -> None:
    assert f"| {code.value} | `{code.name}` |" in OPERATIONS


@pytest.mark.parametrize("code", sorted(KINDS))
def test_every_error_code_has_a_row_that_is_true(code: str) -> None:
    kind = KINDS[code]

    _, status, repeat, meaning = table_row(code)

    assert (int(status), repeat == "yes", meaning) == (kind.status, kind.retriable, kind.meaning)


@pytest.mark.parametrize("name", sorted(failpoints.NAMES))
def test_every_failpoint_is_named(name: str) -> None:
    assert len(table_row(name)) == 2


def test_every_log_event_is_named() -> None:
    events = set(log_events())

    assert len(events) > 20
    assert events <= NAMED, events - NAMED


def log_events() -> Iterator[str]:
    """Yield the first argument of every call of a logger in the product."""
    for path in sorted([*(ROOT / "apps").rglob("*.py"), *(ROOT / "mqweb").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner = node.func.value
            is_logger = isinstance(owner, ast.Name) and owner.id in ("_log", "logger", "log")
            if is_logger and node.func.attr in LEVELS:
                event = node.args[0]
                assert isinstance(event, ast.Constant), f"{path}:{node.lineno} logs no literal"
                yield str(event.value)


def test_nothing_is_documented_that_does_not_exist() -> None:
    variables = {name for name in NAMED if re.fullmatch(r"(MQWEB|DATABASE|REDIS)_[A-Z_]+", name)}
    flags = {name for name in NAMED if re.fullmatch(r"--[a-z-]+", name)}
    points = {
        name for name in NAMED if re.fullmatch(r"(log|checkpoint|derived|journal)\.\w+", name)
    }

    assert variables <= {variable.name for variable in env.VARIABLES}
    assert flags <= {*FLAGS, *SWITCHES}
    assert points - {"postgres.log"} <= failpoints.NAMES
