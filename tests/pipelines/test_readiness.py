"""What is said of the pipelines where something is missing, and who is started on demand."""

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from apps.bridge.children import Program
from apps.bridge.exits import Exit
from apps.core.exceptions import ProblemError
from apps.pipelines import requirements, starting
from apps.pipelines.management import running
from apps.pipelines.models import PipelineRun, PipelineStream, PipelineWorker
from apps.pipelines.requirements import Requirements
from apps.pipelines.selectors.readiness import Readiness, readiness
from apps.pipelines.services import presence
from apps.pipelines.services.presence import Said
from apps.pipelines.spark import session
from mqweb import env
from tests.pipelines.runs import asked, ended

pytestmark = pytest.mark.django_db

ALL = Requirements(java="/usr/bin/java", pyspark="4.3.0", pyarrow="26")
NO_JAVA = Requirements(java=None, pyspark="4.3.0", pyarrow="26")
NOTHING = Requirements(java=None, pyspark=None, pyarrow=None)


def look(
    settings: Any, monkeypatch: pytest.MonkeyPatch, *, mode: str, here: Requirements
) -> Readiness:
    settings.MQWEB = env.read({"MQWEB_SPARK": mode})
    monkeypatch.setattr(requirements, "found_here", lambda: here)
    return readiness()


@pytest.mark.parametrize(
    ("mode", "here", "is_ready", "words"),
    [
        ("off", ALL, False, ["switched off"]),
        ("on", NO_JAVA, False, ["Java is missing"]),
        ("on", NOTHING, False, ["Java is missing", "PySpark and PyArrow are missing"]),
        ("on", ALL, False, ["No worker is there"]),
        ("demand", ALL, True, []),
        ("demand", NO_JAVA, False, ["Java is missing"]),
    ],
)
def test_what_is_missing_is_said(
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    here: Requirements,
    is_ready: bool,
    words: list[str],
) -> None:
    found = look(settings, monkeypatch, mode=mode, here=here)

    assert found.is_ready == is_ready
    assert len(found.missing) == len(words)
    assert all(word in line for word, line in zip(words, found.missing, strict=True))


def test_a_worker_anywhere_is_enough(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    presence.say("elsewhere:1", "yarn", Said(is_ready=True))
    asked()

    found = look(settings, monkeypatch, mode="off", here=NOTHING)

    assert (found.is_ready, found.missing, found.waiting_count) == (True, [], 1)
    assert [worker.name for worker in found.workers] == ["elsewhere:1"]


def test_a_worker_that_is_silent_is_none_and_later_forgotten() -> None:
    presence.say("w", "local", Said())
    PipelineWorker.objects.update(seen_at=timezone.now() - timedelta(seconds=21))
    assert not presence.workers_there().exists()
    PipelineWorker.objects.update(seen_at=timezone.now() - timedelta(hours=2))

    presence.say("x", "local", Said(run_count=3))
    presence.leave("x")

    assert not PipelineWorker.objects.exists()


def test_a_stream_belongs_to_one_process_until_its_lease_ends_or_it_is_not_wanted() -> None:
    stream = presence.take_stream("ingest", "w")
    assert stream is not None
    assert presence.take_stream("ingest", "x") is None
    assert presence.keep_stream(stream)

    type(stream).objects.update(lease_ends_at=timezone.now() - timedelta(seconds=1))
    other = presence.take_stream("ingest", "x")
    assert other is not None
    assert not presence.keep_stream(stream)
    presence.leave_stream(stream, error="mine no more")
    assert type(stream).objects.get().worker == "x"

    presence.want_stream("ingest", is_wanted=False)
    assert not presence.keep_stream(other)
    presence.leave_stream(other, error="it broke")
    found = type(stream).objects.get()
    assert (found.worker, found.lease_ends_at, found.error) == ("", None, "it broke")


class Child:
    """A child that runs until the test says otherwise."""

    pid = 7
    code: int | None = None

    def __init__(self, program: Program) -> None:
        self.program = program

    def poll(self) -> int | None:
        return self.code


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Child]:
    """Return the children that were started, which are no processes."""
    found: list[Child] = []

    def start(program: Program) -> Child:
        found.append(Child(program))
        return found[-1]

    monkeypatch.setattr(starting, "Child", start)
    monkeypatch.setattr(starting, "_children", [])
    monkeypatch.setattr(requirements, "found_here", lambda: ALL)
    return found


def test_on_demand_one_worker_is_started_while_runs_wait(started: list[Child]) -> None:
    assert not starting.start_worker_if_needed()
    run = asked()

    assert starting.start_worker_if_needed()
    assert not starting.start_worker_if_needed()
    started[0].code = 0
    assert starting.start_worker_if_needed()
    started[1].code = 0
    presence.say("w", "local", Said())
    assert not starting.start_worker_if_needed()
    presence.leave("w")
    ended(run, "done")
    assert not starting.start_worker_if_needed()

    assert [child.program.command[-3:] for child in started] == [
        ["spark_worker", "--until-idle", "60"]
    ] * 2


def test_on_demand_nothing_is_started_where_java_is_missing(
    started: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked()
    monkeypatch.setattr(requirements, "found_here", lambda: NO_JAVA)

    assert not starting.start_worker_if_needed()
    assert started == []


def test_a_session_without_java_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requirements, "found_here", lambda: NOTHING)

    with pytest.raises(ProblemError, match="install Java 17") as refusal:
        session.open_session(name="x")

    assert refusal.value.kind.code == "spark_unavailable"


def test_java_is_looked_for_at_java_home_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert requirements.found_here().java is None

    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("")
    java.chmod(0o700)

    assert requirements.found_here().java == str(java)


COMMANDS = [
    ["spark_job", "loss", "--from", "2026-03-01", "--to", "2026-03-02"],
    ["spark_worker"],
    ["spark_stream", "ingest"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_command_says_what_is_missing_before_it_asks_for_anything(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "found_here", lambda: NOTHING)

    with pytest.raises(CommandError, match=r"Java is missing.*PySpark and PyArrow are") as refusal:
        call_command(*command)

    assert refusal.value.returncode == Exit.LACKING
    assert not PipelineRun.objects.exists()
    assert not PipelineStream.objects.exists()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_master_that_cannot_be_one_is_refused(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "found_here", lambda: ALL)

    with pytest.raises(CommandError, match="--master 'spork://x'") as refusal:
        call_command(*command, "--master", "spork://x")

    assert refusal.value.returncode == Exit.REFUSED


def test_a_stream_that_nobody_wants_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "found_here", lambda: ALL)
    monkeypatch.setattr(running, "prepare", lambda: None)
    monkeypatch.setattr(running, "catch_signals", lambda _stopping: None)
    call_command("spark_stream", "ingest", "--unwanted")

    with pytest.raises(CommandError, match="--wanted") as refusal:
        call_command("spark_stream", "ingest")

    assert refusal.value.returncode == Exit.REFUSED
    assert PipelineStream.objects.get().worker == ""
    call_command("spark_stream", "ingest", "--wanted")
    assert PipelineStream.objects.get().is_wanted


def test_the_commands_begin_where_nothing_of_spark_is_installed() -> None:
    """Runs apart: here it has been imported long ago."""
    code = """
import sys
for name in ("pyspark", "pyarrow", "pandas", "py4j"):
    sys.modules[name] = None
import django
django.setup()
from django.core.management import load_command_class
for name in ("spark_job", "spark_worker", "spark_stream"):
    load_command_class("apps.pipelines", name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["loss", "--from", "yesterday", "--to", "2026-03-01"],
        ["loss", "--from", "2026-03-02", "--to", "2026-03-01"],
        ["loss", "--from", "2026-02-30", "--to", "2026-03-01"],
        ["loss", "--from", "2026-03-01", "--to", "2026-03-02", "--topics", "nowhere"],
        ["loss", "--from", "2026-03-01", "--to", "2026-03-02", "--param", "limit"],
    ],
    ids=lambda arguments: " ".join(arguments[1:]),
)
def test_a_job_that_cannot_be_asked_for_is_refused(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "found_here", lambda: ALL)
    with pytest.raises(CommandError) as refusal:
        call_command("spark_job", *arguments)

    assert refusal.value.returncode == Exit.REFUSED
