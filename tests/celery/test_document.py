"""docs/CELERY.md is true: its example runs as written, and it names every option."""

import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest
from mqclient.celery import Options

from tests.celery.conftest import Site
from tests.celery.effects import DEADLINE_S, wait_for
from tests.celery.workers import plain_environment

pytestmark = pytest.mark.process

_DOCUMENT = (Path(__file__).parents[2] / "docs" / "CELERY.md").read_text()
_PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
_SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_ADDRESS = "mqweb://127.0.0.1:8000//"


def test_the_example_runs_as_it_is_written(site_of_long_run: Site, tmp_path: Path) -> None:
    site = site_of_long_run
    (code,) = _PYTHON.findall(_DOCUMENT)
    assert _ADDRESS in code
    (tmp_path / "tasks.py").write_text(code.replace(_ADDRESS, site.broker.url()))
    serving, asking = (text.splitlines() for text in _SHELL.findall(_DOCUMENT))
    log = tmp_path / "worker.log"

    with ExitStack() as running:
        (work,) = serving
        with log.open("wb") as file:
            worker = subprocess.Popen(
                _command(work), cwd=tmp_path, env=plain_environment(), stdout=file, stderr=file
            )
        running.callback(worker.wait)
        running.callback(worker.terminate)
        wait_for(lambda: worker.poll() is not None or " ready." in log.read_text(), "it is ready")
        answers = [_output(line, tmp_path) for line in asking]
        wait_for(lambda: "hello, later" in log.read_text(), "both tasks ran")

    assert "hello, you" in log.read_text()
    assert "pong" in answers[-1]


def _command(line: str) -> list[str]:
    program, *arguments = shlex.split(line)
    return [str(Path(sys.executable).parent / program), *arguments]


def _output(line: str, directory: Path) -> str:
    done = subprocess.run(
        _command(line),
        cwd=directory,
        env=plain_environment(),
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("option", fields(Options), ids=lambda option: option.name)
def test_every_option_has_a_row_with_its_default(option: Field[Any]) -> None:
    (row,) = [line for line in _DOCUMENT.splitlines() if line.startswith(f"| `{option.name}` |")]
    told = row.split("|")[2].strip().strip("`")

    is_number = isinstance(option.default, (int, float)) and not isinstance(option.default, bool)
    shown = f"{option.default:g}" if is_number else str(option.default)
    assert told == ("the store's" if option.default is None else shown)
