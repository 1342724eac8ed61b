"""What runs of the whole product share: a broker with a database of its own."""

from collections.abc import Iterator

import pytest
from django.conf import settings

from tests.celery.brokers import Mqweb, database_url, migrated_database


@pytest.fixture(scope="module")
def product(embedded_postgres: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mqweb]:
    """Return a broker with a database of its own."""
    with migrated_database("outcomes") as name:
        url = database_url(settings.DATABASES["default"], name)
        broker = Mqweb(tmp_path_factory.mktemp("product") / "data", url)
        broker.start()
        yield broker
        broker.stop()
