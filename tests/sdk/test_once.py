"""Effects that happen once, in SQLite, in PostgreSQL and with a mark in Redis."""

import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import redis
from django.conf import settings
from mqclient import EffectBusy, InvalidArgument, MqError
from mqclient.idempotent import RedisOnce, SqlOnce, VersionedRows, effect_key
from mqclient.wire.records import Message, unpack_records
from psycopg import sql

from tests.celery.brokers import database_url
from tests.process.product import free_port
from tests.process.redis_server import RedisServer
from tests.sdk.fake_broker import make_record


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE stock (id TEXT PRIMARY KEY, count INT, version INT)")
        connection.execute("INSERT INTO stock VALUES ('shoe', 10, 1)")
        connection.commit()
        yield connection


def take_one(connection: Any) -> None:
    connection.cursor().execute("UPDATE stock SET count = count - 1 WHERE id = 'shoe'")


def count_of(connection: Any) -> int:
    cursor = connection.cursor()
    cursor.execute("SELECT count FROM stock")
    return int(cursor.fetchone()[0])


def once(connection: Any, module: Any = sqlite3, scope: str = "shop") -> SqlOnce:
    effects = SqlOnce(module, scope=scope)
    effects.create_table(connection)
    return effects


def test_a_key_has_its_effect_once(database: sqlite3.Connection) -> None:
    effects = once(database)

    done = [effects.run(database, "order-1", lambda: take_one(database)) for _ in range(3)]
    done.append(effects.run(database, "order-2", lambda: take_one(database)))

    assert done == [True, False, False, True]
    assert count_of(database) == 8
    assert not database.in_transaction


def test_groups_that_share_a_topic_have_their_effects_apart(database: sqlite3.Connection) -> None:
    done = [
        once(database, scope=scope).run(database, "order-1", lambda: take_one(database))
        for scope in ("shop", "mail")
    ]

    assert done == [True, True]


def test_an_effect_that_fails_leaves_neither_itself_nor_its_mark(
    database: sqlite3.Connection,
) -> None:
    effects = once(database)

    def half_done() -> None:
        take_one(database)
        raise ValueError("the shelf broke")

    with pytest.raises(ValueError, match="shelf"):
        effects.run(database, "order-1", half_done)
    after_failure = count_of(database)
    done = effects.run(database, "order-1", lambda: take_one(database))

    assert after_failure == 10
    assert done
    assert count_of(database) == 9


def test_a_constraint_the_work_breaks_is_no_repeat(database: sqlite3.Connection) -> None:
    effects = once(database)

    def breaks_one() -> None:
        database.execute("INSERT INTO stock VALUES ('shoe', 0, 0)")

    with pytest.raises(sqlite3.IntegrityError):
        effects.run(database, "order-1", breaks_one)

    assert effects.run(database, "order-1", lambda: take_one(database))


def test_a_process_that_dies_before_the_commit_has_done_nothing(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as first:
        first.execute("CREATE TABLE stock (id TEXT, count INT, version INT)")
        first.execute("INSERT INTO stock VALUES ('shoe', 10, 1)")
        effects = once(first)

        class Killed(BaseException):
            pass

        def dies() -> None:
            take_one(first)
            # What the file has at this moment is what a restart finds.
            with closing(sqlite3.connect(path)) as restarted:
                assert count_of(restarted) == 10
            raise Killed

        with pytest.raises(Killed):
            effects.run(first, "order-1", dies)
    with closing(sqlite3.connect(path)) as second:
        assert once(second).run(second, "order-1", lambda: take_one(second))


def test_a_connection_that_commits_by_itself_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        effects = once(connection)
        with pytest.raises(InvalidArgument, match="autocommit"):
            effects.run(connection, "order-1", lambda: None)


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x00b"])
def test_a_key_that_fits_nowhere_is_refused(database: sqlite3.Connection, key: str) -> None:
    with pytest.raises(InvalidArgument):
        once(database).run(database, key, lambda: None)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: SqlOnce(sqlite3, scope="no blanks"),
        lambda: SqlOnce(sqlite3, scope="s", table="stock; DROP TABLE stock"),
        lambda: SqlOnce(SimpleNamespace(paramstyle="named", IntegrityError=ValueError), scope="s"),
        lambda: VersionedRows(sqlite3, table="stock", key="id = id OR id"),
        lambda: RedisOnce(SimpleNamespace(), scope="s", lease_ms=0),  # type: ignore[arg-type]
        lambda: RedisOnce(SimpleNamespace(), scope="s", lease_ms=9, kept_ms=8),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(MqError):
        wrong()


def test_a_row_changes_from_the_version_a_message_was_made_for(
    database: sqlite3.Connection,
) -> None:
    rows = VersionedRows(sqlite3, table="stock")

    changed = [
        rows.update(database, "shoe", version=1, values={"count": 7}),
        rows.update(database, "shoe", version=1, values={"count": 7}),
        rows.update(database, "shoe", version=3, values={"count": 1}),
        rows.update(database, "shoe", version=2, values={"count": 6}),
        rows.update(database, "hat", version=1, values={"count": 6}),
    ]
    database.commit()

    assert changed == [True, False, False, True, False]
    assert database.execute("SELECT count, version FROM stock").fetchall() == [(6, 3)]
    with pytest.raises(InvalidArgument):
        rows.update(database, "shoe", version=3, values={"version": 9})
    with pytest.raises(InvalidArgument):
        rows.update(database, "shoe", version=3, values={"count = 0 --": 9})


@pytest.fixture
def postgres(embedded_postgres: None) -> str:
    """Return the address of the tests' PostgreSQL."""
    return database_url(settings.DATABASES["default"], "postgres")


def test_two_who_try_at_once_have_one_effect_in_postgresql(postgres: str) -> None:
    table = f"mq_once_{uuid.uuid4().hex[:12]}"
    entered, go_on = threading.Event(), threading.Event()
    done: dict[str, bool] = {}
    with psycopg.connect(postgres) as first, psycopg.connect(postgres) as second:
        effects = SqlOnce(psycopg, scope="shop", table=table)
        effects.create_table(first)

        def slow() -> None:
            entered.set()
            assert go_on.wait(60)

        def run_second() -> None:
            done["second"] = effects.run(second, "order-1", lambda: None)

        def run_first() -> None:
            done["first"] = effects.run(first, "order-1", slow)

        threads = [threading.Thread(target=run_first), threading.Thread(target=run_second)]
        threads[0].start()
        assert entered.wait(60)
        threads[1].start()
        is_waiting = not threads[1].join(0.05) and threads[1].is_alive()
        go_on.set()
        for thread in threads:
            thread.join(60)
        refused = psycopg.connect(postgres, autocommit=True)
        with refused, pytest.raises(InvalidArgument):
            effects.run(refused, "order-2", lambda: None)
        first.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(table)))

    assert done == {"first": True, "second": False}
    assert is_waiting


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    running = RedisServer(tmp_path_factory.mktemp("redis"), free_port())
    running.start()
    client = redis.Redis.from_url(running.url)
    yield client
    client.close()
    running.stop()


def test_redis_remembers_what_was_done(server: Any) -> None:
    effects, runs = RedisOnce(server, scope="done"), []

    done = [effects.run("order-1", lambda: runs.append(1)) for _ in range(3)]

    assert done == [True, False, False]
    assert runs == [1]
    assert 0 < server.pttl("mq-once:done:order-1") <= 7 * 24 * 3_600_000


def test_while_one_works_another_is_told_to_come_later(server: Any) -> None:
    effects = RedisOnce(server, scope="busy")

    def work() -> None:
        with pytest.raises(EffectBusy) as caught:
            effects.run("order-1", lambda: None)
        assert caught.value.retriable

    assert effects.run("order-1", work)


def test_work_that_fails_may_be_tried_at_once(server: Any) -> None:
    effects = RedisOnce(server, scope="failed")

    def fails() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        effects.run("order-1", fails)

    assert effects.run("order-1", lambda: None)


def test_a_lease_that_ended_is_the_next_ones_to_finish(server: Any) -> None:
    effects, name = RedisOnce(server, scope="slow"), "mq-once:slow:order-1"

    def overtaken() -> None:
        # The lease ended, and another has begun.
        server.set(name, "another's token")

    effects.run("order-1", overtaken)

    assert server.get(name) == b"another's token"


def test_an_effect_is_known_by_the_key_or_else_the_id_a_message_keeps() -> None:
    def made(properties: str) -> Message:
        record = make_record("%RETRY%g", 0, b"x", properties.encode())
        return unpack_records(record, 0, [len(record)], None)[0]

    assert effect_key(made("KEYS\x01order-1 customer-2\x02UNIQ_KEY\x01U\x02")) == "order-1"
    assert effect_key(made("UNIQ_KEY\x01U\x02ORIGIN_MESSAGE_ID\x01O\x02")) == "O"
    assert effect_key(made("UNIQ_KEY\x01U\x02")) == "U"
