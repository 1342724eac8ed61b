"""What judges the product imports nothing of it, and nothing that imports it."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
ALLOWED = frozenset({"pytest", "tests.histories", "tests.rounds", *sys.stdlib_module_names})


def imported(text: str) -> Iterator[str]:
    """Yield the name of every module a source names in an import, or to `import_module`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in ("import_module", "__import__"):
                yield f"whatever {name} is given"


def is_allowed(module: str) -> bool:
    """Say whether a module is the standard library's, pytest or ours."""
    parts = module.split(".")
    return any(".".join(parts[:count]) in ALLOWED for count in range(1, len(parts) + 1))


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.name)
def test_only_the_standard_library_is_imported(path: Path) -> None:
    assert [module for module in imported(path.read_text()) if not is_allowed(module)] == []


@pytest.mark.parametrize(
    "text",
    [
        "import apps.engine.types",
        "def f():\n    from mqclient import Producer",
        "from tests.process.product import Broker",
        "from tests import process",
        "import django",
        "from . import events",
        "import importlib\nimportlib.import_module('apps')",
        "__import__('mqweb')",
    ],
)
def test_an_import_of_the_product_is_noticed(text: str) -> None:
    assert not all(map(is_allowed, imported(text)))


def test_judging_loads_nothing_of_the_product() -> None:
    program = (
        "import sys, tests.histories.judge, tests.histories.takeover, tests.histories.recorder\n"
        "wrong = {name.partition('.')[0] for name in sys.modules}"
        " & {'apps', 'mqclient', 'mqweb', 'django', 'numpy'}\n"
        "sys.exit(f'loaded: {wrong}' if wrong else 0)"
    )

    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
