"""Servers and stages of the conformance run, and what the run says of each feature.

`ROCKETMQ_AGAINST=apache` plays against Apache's own server instead of the product.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import results
from tests.conformance.apache import Apache
from tests.conformance.clients import CLIENTS, Client
from tests.conformance.servers import GUARDED, SHARED, Mqweb, MqwebDoor, Server
from tests.conformance.stage import Stage

_AGAINST = os.environ.get("ROCKETMQ_AGAINST", "mqweb")
_recorder = results.Recorder(against=_AGAINST)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play each scenario with each client."""
    if "client" in metafunc.fixturenames:
        metafunc.parametrize("client", list(CLIENTS.values()), ids=list(CLIENTS), scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Write on each scenario which row and column of the table it speaks for."""
    for item in items:
        marker = item.get_closest_marker("rocketmq")
        if marker is not None and isinstance(item, pytest.Function):
            client = item.callspec.params["client"]
            item.user_properties.append(("feature", marker.args[0]))
            item.user_properties.append(("client", client.name))
            # Before a server is started for it.
            if not client.is_built():
                item.add_marker(pytest.mark.skip(reason=_why_not_built(client)))
            elif marker.args[0] in client.lacks:
                item.add_marker(pytest.mark.skip(reason=client.lacks[marker.args[0]]))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what became of a scenario."""
    _recorder.add(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what the run said, where that is asked for; workers tell their master only."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        _recorder.keep()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return the one server that scenarios share; also with other workers, where one was named."""
    if shared := os.environ.get(SHARED):
        yield MqwebDoor.named(shared)
        return
    started = _serve(tmp_path_factory.mktemp("server"))
    yield started
    started.stop()


@pytest.fixture
def lone_server(tmp_path: Path) -> Iterator[Server]:
    """Return a server of the scenario's own, which it may kill."""
    started = _serve(tmp_path / "server")
    yield started
    started.stop()


@pytest.fixture
def stage(client: Client, server: Server, tmp_path: Path) -> Iterator[Stage]:
    """Return the stage of one scenario."""
    yield from _stage(client, server, tmp_path)


@pytest.fixture
def lone_stage(client: Client, lone_server: Server, tmp_path: Path) -> Iterator[Stage]:
    """Return a stage whose server may be killed."""
    yield from _stage(client, lone_server, tmp_path)


@pytest.fixture(scope="session")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqwebDoor]:
    """Return the product with access control."""
    if _AGAINST == "apache":
        pytest.skip("Apache's access control is not set up here")
    if shared := os.environ.get(GUARDED):
        yield MqwebDoor.named(shared)
        return
    started = Mqweb(tmp_path_factory.mktemp("guarded") / "data", is_guarded=True)
    yield started
    started.stop()


@pytest.fixture
def guarded_stage(client: Client, guarded_server: MqwebDoor, tmp_path: Path) -> Iterator[Stage]:
    """Return a stage on which only those with a key may play; it has none yet."""
    yield from _stage(client, guarded_server, tmp_path)


def _why_not_built(client: Client) -> str:
    missing = [program for program in client.needs if shutil.which(program) is None]
    why = f"there is no {', '.join(missing)} here" if missing else "`make rocketmq` builds it"
    return f"the {client.name} client {results.NOT_BUILT}: {why}"


def _serve(directory: Path) -> Server:
    directory.mkdir(exist_ok=True)
    return Apache(directory) if _AGAINST == "apache" else Mqweb(directory / "data")


def _stage(client: Client, server: Server, home: Path) -> Iterator[Stage]:
    made = Stage(server=server, client=client, home=home / "home")
    yield made
    made.end()
