"""What runs of the whole product share: a broker with a database of its own."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings

from tests.celery.brokers import Mqweb, database_url


@pytest.fixture(scope="module")
def product(embedded_postgres: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mqweb]:
    """Return a broker with a database of its own."""
    database = settings.DATABASES["default"]
    server, name = database_url(database, "postgres"), f"outcomes_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    directory: Path = tmp_path_factory.mktemp("product")
    broker = Mqweb(directory / "data", database_url(database, name))
    broker.start()
    yield broker
    broker.stop()
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
