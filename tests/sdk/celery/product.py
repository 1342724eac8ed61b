"""A real broker with a database of its own, and kombu's connections to it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from kombu import Connection

from tests.celery.brokers import database_url, migrated_database
from tests.process.product import Broker


class Product:
    """`manage.py broker`, and what tests ask of it."""

    def __init__(self, directory: Path, database: str) -> None:
        self.broker = Broker(directory)
        self._database = database
        self._opened: list[Connection] = []

    def start(self) -> None:
        """Start the broker, or start it again on what was left."""
        self.broker.start(DATABASE_URL=self._database)

    def connection(self, virtual_host: str = "/", **options: Any) -> Connection:
        """Return a connection, closed at the end of the test."""
        connection = Connection(
            f"mqweb://127.0.0.1:{self.broker.port}/{virtual_host}",
            transport_options={"visibility_timeout_s": 30, **options},
        )
        self._opened.append(connection)
        return connection

    def close_connections(self) -> None:
        """Close what the test has opened."""
        while self._opened:
            self._opened.pop().release()


@contextmanager
def running(directory: Path) -> Iterator[Product]:
    """Run a broker on a new database."""
    directory.mkdir(parents=True, exist_ok=True)
    with migrated_database("kombu") as name:
        product = Product(directory, database_url(settings.DATABASES["default"], name))
        try:
            product.start()
            yield product
            product.close_connections()
        finally:
            product.broker.stop()


def texts(take: Callable[[], Any], count: int) -> list[Any]:
    """Take so many messages, acknowledge them and return what they say."""
    found = []
    for _ in range(count):
        message = take()
        found.append(message.payload)
        message.ack()
    return found
