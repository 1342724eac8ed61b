"""The example application, by the commands of its README, on each broker."""

import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.celery.conftest import Site
from tests.celery.effects import DEADLINE_S, wait_for
from tests.celery.workers import plain_environment

pytestmark = pytest.mark.process

_EXAMPLE = Path(__file__).parents[2] / "examples" / "celery_shop"
_README = (_EXAMPLE / "README.md").read_text()
_FENCED = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_INDENTED = re.compile(r"^    (.+)$", re.MULTILINE)


def test_the_readme_tells_what_happens(site_of_long_run: Site, tmp_path: Path) -> None:
    site = site_of_long_run
    serving, ordering = (text.splitlines() for text in _FENCED.findall(_README))
    make_environment, install, work = serving
    assert make_environment == "python3 -m venv .venv"
    assert install == ".venv/bin/pip install -r requirements.txt"

    with ExitStack() as running:
        worker = _start(work, site, tmp_path)
        running.callback(worker.wait)
        running.callback(worker.terminate)
        log = tmp_path / "worker.log"
        wait_for(lambda: worker.poll() is not None or " ready." in log.read_text(), "it is ready")
        told = [line for command in ordering for line in _output(command, site, tmp_path)]

    assert told == _INDENTED.findall(_README)


def _command(line: str) -> list[str]:
    program, *arguments = shlex.split(line)
    assert program.startswith(".venv/bin/")
    return [str(Path(sys.executable).parent / Path(program).name), *arguments]


def _environment(site: Site) -> dict[str, str]:
    environment = plain_environment()
    return {**environment, "PYTHONPATH": str(_EXAMPLE), "BROKER_URL": site.broker.url()}


def _start(line: str, site: Site, directory: Path) -> subprocess.Popen[bytes]:
    with (directory / "worker.log").open("wb") as log:
        return subprocess.Popen(
            _command(line), cwd=directory, env=_environment(site), stdout=log, stderr=log
        )


def _output(line: str, site: Site, directory: Path) -> list[str]:
    done = subprocess.run(
        _command(line),
        cwd=directory,
        env=_environment(site),
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
