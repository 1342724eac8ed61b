"""Where the runs happen: a broker, its application and two workers, all started when first used."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, Task
from celery.app.control import Inspect
from django.conf import settings

from tests.celery.application import LANE, NEWS, Setup, make
from tests.celery.brokers import CeleryBroker, Mqweb, Redis, database_url, migrated_database
from tests.celery.effects import DEADLINE_S, Effects
from tests.celery.workers import Worker, running

_BROKERS = ("mqweb", "redis")
# Far longer than a machine under load stalls: where no worker dies nothing comes back.
_VISIBILITY_S = 60.0


class Site:
    """One running broker with what a run on it needs."""

    def __init__(self, broker: CeleryBroker, directory: Path, result_backend: str) -> None:
        """Use a started broker."""
        self.broker = broker
        self.directory = directory
        self.effects = Effects(directory)
        self._result_backend = result_backend
        self._opened = ExitStack()
        self._pair: tuple[Worker, Worker] | None = None
        self._worker_count = 0
        self.app = self._application()

    def _application(self) -> Celery:
        app = make(self._setup(_VISIBILITY_S))
        self._opened.callback(app.close)
        return app

    def task(self, name: str) -> Task:
        """Return a task to send."""
        return self.app.tasks[f"runs.{name}"]

    def worker(self, *arguments: str, visibility_s: float = _VISIBILITY_S) -> Worker:
        """Start a worker; see `running`."""
        self._worker_count += 1
        name = f"worker{self._worker_count}"
        return Worker(
            name,
            *arguments,
            log=self.directory / f"{name}.log",
            variables=self._setup(visibility_s).variables(),
        )

    def inspect(self, *workers: Worker) -> Inspect:
        """Return what asks workers, and waits until each has answered."""
        names = [worker.name for worker in workers]
        return self.app.control.inspect(names, timeout=DEADLINE_S, limit=len(names))

    def ready(self, lane: str) -> int:
        """Return how many tasks of a lane wait for a worker."""
        with self.app.connection_for_read() as connection, connection.channel() as channel:
            return int(channel.queue_declare(lane, passive=True).message_count)

    def lane_worker(self, lane: str, *arguments: str, visibility_s: float) -> Worker:
        """Start a worker of one lane that begins at once, without asking others what they know."""
        quick = ("--without-gossip", "--without-mingle", "-Q", lane)
        return self.worker(*quick, *arguments, visibility_s=visibility_s)

    def pair(self) -> tuple[Worker, Worker]:
        """Return two workers with all defaults that take whatever is sent without a lane."""
        if self._pair is None:
            arguments = ("-Q", f"{LANE},{NEWS}", "-c", "2", "-E")
            first, second = self.worker(*arguments), self.worker(*arguments)
            for worker in (first, second):
                self._opened.enter_context(running(worker))
            self._pair = (first, second)
        return self._pair

    def dismiss_pair(self) -> None:
        """End the two workers; they are started anew when they are wanted."""
        pair, self._pair = self._pair or (), None
        for worker in pair:
            worker.terminate()
        for worker in pair:
            worker.stop()

    def kill_broker(self) -> None:
        """Kill the broker and start it again; workers that would not survive it are spared."""
        if not self.broker.workers_survive:
            self.dismiss_pair()
        self.broker.kill()
        self.broker.start()

    def close(self) -> None:
        """Stop the workers, and forget connections."""
        with self._opened:
            self.dismiss_pair()

    def _setup(self, visibility_s: float) -> Setup:
        return Setup(
            broker_url=self.broker.url(),
            result_backend=self._result_backend,
            directory=self.directory,
            transport_options=self.broker.options(visibility_s),
        )


@pytest.fixture(scope="session")
def new_database(embedded_postgres: None) -> Iterator[Callable[[], str]]:
    """Return a maker of databases with the product's tables, which are gone at the end."""
    with ExitStack() as made:
        yield lambda: made.enter_context(migrated_database("celery_runs"))


@pytest.fixture(scope="session")
def sites(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Site]]:
    """Return what starts each broker once, in whatever order tests come."""
    database: dict[str, Any] = settings.DATABASES["default"]
    backend = f"db+{database_url(database, new_database(), 'postgresql+psycopg')}"
    started: dict[str, Site] = {}

    with ExitStack() as opened:

        def site(name: str) -> Site:
            if name not in started:
                directory = tmp_path_factory.mktemp(f"celery-{name}")
                broker: CeleryBroker
                if name == "mqweb":
                    broker = Mqweb(directory / "data", database_url(database, new_database()))
                else:
                    broker = Redis(directory / "data")
                broker.start()
                opened.callback(broker.stop)
                started[name] = Site(broker, directory, backend)
                opened.callback(started[name].close)
            return started[name]

        yield site


@pytest.fixture(params=_BROKERS)
def site(request: pytest.FixtureRequest, sites: Callable[[str], Site]) -> Site:
    """Return a running broker with its application, one after the other."""
    return sites(request.param)


@pytest.fixture(params=["mqweb", pytest.param("redis", marks=pytest.mark.crash)])
def site_of_long_run(request: pytest.FixtureRequest, sites: Callable[[str], Site]) -> Site:
    """Return the same for runs that take long: on Redis they belong to `make crash`."""
    return sites(request.param)


@pytest.fixture
def key() -> str:
    """Return a key of effects, or a lane, that no other test uses."""
    return f"k{uuid.uuid4().hex[:12]}"
