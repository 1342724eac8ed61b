"""Variables and flags: what is read, what is refused, and that a refusal tells no secret."""

from pathlib import Path
from typing import Any

import pytest

from apps.bridge import conf, flags, secretfiles
from apps.engine import limits
from apps.engine.config import EngineConfig
from mqweb import env


def test_without_variables_everything_has_its_default() -> None:
    found = env.read({})

    assert found.data == Path("data").resolve()
    assert (found.host, found.port, found.auth, found.ack) == ("127.0.0.1", 8000, "off", "sync")
    assert found.segment_bytes == 1024**3
    assert found.flush_interval_ms == 500
    assert found.database_url is None
    assert (found.member_timeout_ms, found.queue_lock_ms) == (30_000, 60_000)
    assert found.broker_name == "mqweb"


def test_the_times_of_groups_reach_the_engine(
    settings: Any,  # pytest-django gives its fixture no type.
) -> None:
    settings.MQWEB = env.read(
        {
            "MQWEB_MEMBER_TIMEOUT_MS": "9000",
            "MQWEB_QUEUE_LOCK_MS": "45000",
            "MQWEB_BROKER_NAME": "north@mqweb",
        }
    )

    config = conf.engine_config()

    assert (config.member_timeout_ms, config.queue_lock_ms) == (9_000, 45_000)
    assert config.broker_name == "north@mqweb"


def test_the_grpc_door_has_the_port_of_rocketmqs_proxy_unless_told_otherwise() -> None:
    plain = env.read({}).grpc
    none = env.read({"MQWEB_GRPC_PORT": "0"}).grpc
    both = env.read(
        {
            "MQWEB_GRPC_PORT": "9081",
            "MQWEB_GRPC_TLS_PORT": "9082",
            "MQWEB_GRPC_TLS_CERT": "/x/cert.pem",
            "MQWEB_GRPC_TLS_KEY": "/x/key.pem",
        }
    ).grpc

    assert (plain.open, plain.are_any) == ((8081,), True)
    assert (none.open, none.are_any) == ((), False)
    assert both.open == (9081, 9082)
    assert [str(ports) for ports in (plain, none, both)] == ["8081", "off", "9081, 9082 (TLS)"]
    assert (both.tls_cert, both.tls_key) == (Path("/x/cert.pem"), Path("/x/key.pem"))


def test_delays_and_transactions_are_rocketmqs_unless_told_otherwise() -> None:
    found = env.read({})

    assert found.delay_levels_ms == limits.DELAY_LEVELS_MS
    assert found.delay_ms_max == EngineConfig().delay_ms_max
    assert found.transaction_immunity_ms == EngineConfig().transaction_immunity_ms
    assert found.transaction_check_ms == EngineConfig().transaction_check_ms
    assert found.transaction_checks_max == EngineConfig().transaction_checks_max


def test_delays_and_transactions_reach_the_engine(
    settings: Any,  # pytest-django gives its fixture no type.
) -> None:
    settings.MQWEB = env.read(
        {
            "MQWEB_DELAY_LEVELS": " 2s 3m  4h 5d ",
            "MQWEB_DELAY_MAX": "7d",
            "MQWEB_TRANSACTION_IMMUNITY_MS": "0",
            "MQWEB_TRANSACTION_CHECK_MS": "500",
            "MQWEB_TRANSACTION_CHECKS_MAX": "3",
        }
    )

    config = conf.engine_config()

    assert config.delay_levels_ms == (2_000, 180_000, 14_400_000, 432_000_000)
    assert config.delay_ms_max == 7 * 86_400_000
    assert (config.transaction_immunity_ms, config.transaction_check_ms) == (0, 500)
    assert config.transaction_checks_max == 3


def test_retention_is_rocketmqs_unless_told_otherwise() -> None:
    found, engine = env.read({}), EngineConfig()

    assert found.retention_ms == engine.retention_ms == 72 * 3_600_000
    assert (found.retention_bytes or None) == engine.retention_bytes
    assert found.retention_hours == engine.retention_hours == (4,)
    assert (found.retention_disk_percent, found.retention_force_percent) == (75, 85)


def test_retention_reaches_the_engine(
    settings: Any,  # pytest-django gives its fixture no type.
) -> None:
    settings.MQWEB = env.read(
        {
            "MQWEB_RETENTION": "7d",
            "MQWEB_RETENTION_BYTES": "5000000000",
            "MQWEB_RETENTION_HOURS": "23; 4",
            "MQWEB_RETENTION_DISK_PERCENT": "60",
            "MQWEB_RETENTION_FORCE_PERCENT": "100",
        }
    )

    config = conf.engine_config()

    assert (config.retention_ms, config.retention_bytes) == (7 * 86_400_000, 5_000_000_000)
    assert (config.retention_hours, config.retention_disk_share) == ((4, 23), 0.6)
    assert config.retention_force_share > 1


@pytest.mark.parametrize("hours", ["24", "4,5", "noon", ";", "-1"])
def test_hours_that_are_none_of_a_day_are_refused(hours: str) -> None:
    with pytest.raises(env.Refused, match="MQWEB_RETENTION_HOURS"):
        env.read({"MQWEB_RETENTION_HOURS": hours})


def test_an_empty_variable_counts_as_unset() -> None:
    assert env.read({"MQWEB_PORT": "", "DATABASE_URL": ""}) == env.read({})


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "example.com", "127.0.0.1.nip.io"]
)
def test_without_authentication_only_loopback_is_listened_on(host: str) -> None:
    with pytest.raises(env.Refused, match="loopback"):
        env.read({"MQWEB_HOST": host})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_addresses_are_taken(host: str) -> None:
    assert env.read({"MQWEB_HOST": host}).host == host


def test_an_address_for_others_needs_access_to_be_on() -> None:
    with pytest.raises(env.Refused, match="loopback address only"):
        env.read({"MQWEB_HOST": "0.0.0.0"})

    found = env.read({"MQWEB_HOST": "0.0.0.0", "MQWEB_AUTH": "on", "MQWEB_SECRET_KEY": "k" * 50})

    assert (found.host, found.own_host, found.auth) == ("0.0.0.0", "127.0.0.1", "on")
    assert found.celery_broker_url == "mqweb://127.0.0.1:8000//"
    assert found.is_own_celery_broker


def test_access_needs_a_key_of_its_own() -> None:
    with pytest.raises(env.Refused, match="needs MQWEB_SECRET_KEY"):
        env.read({"MQWEB_AUTH": "on"})


def test_another_celery_broker_gets_no_token_of_ours() -> None:
    found = env.read({"CELERY_BROKER_URL": "mqweb://elsewhere:8000//"})

    assert not found.is_own_celery_broker


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MQWEB_PORT", "0"), ("MQWEB_PORT", "65536"), ("MQWEB_PORT", "http"),
        ("MQWEB_PORT", "-1"), ("MQWEB_PORT", "9" * 5000), ("MQWEB_PORT", "٣"),
        ("MQWEB_GRPC_PORT", "-1"), ("MQWEB_GRPC_PORT", "65536"), ("MQWEB_GRPC_PORT", "٣"),
        ("MQWEB_GRPC_TLS_PORT", "8082"), ("MQWEB_GRPC_TLS_PORT", "x"),
        ("MQWEB_ACK", "oneway"), ("MQWEB_AUTH", "on"), ("MQWEB_HOST", "a b"),
        ("MQWEB_FLUSH_INTERVAL_MS", "0"), ("MQWEB_SEGMENT_BYTES", "1024"),
        ("MQWEB_SEGMENT_BYTES", str(1024**4)), ("MQWEB_SECRET_KEY", "short"),
        ("MQWEB_ALLOWED_HOSTS", "*"), ("MQWEB_ALLOWED_HOSTS", "a,.example.com"),
        ("MQWEB_FAILPOINTS", "log.nowhere=kill(1)"), ("MQWEB_LOG_LEVEL", "LOUD"),
        ("MQWEB_MEMBER_TIMEOUT_MS", "999"), ("MQWEB_QUEUE_LOCK_MS", "3600001"),
        ("MQWEB_DELAY_LEVELS", "1s 5"), ("MQWEB_DELAY_LEVELS", "0s"), ("MQWEB_DELAY_LEVELS", "1w"),
        ("MQWEB_DELAY_LEVELS", "1s,5s"), ("MQWEB_DELAY_LEVELS", "-1s"), ("MQWEB_DELAY_LEVELS", " "),
        ("MQWEB_DELAY_LEVELS", "1s " * 129), ("MQWEB_DELAY_LEVELS", "٣s"),
        ("MQWEB_DELAY_LEVELS", "3661d"), ("MQWEB_DELAY_MAX", "1y"), ("MQWEB_DELAY_MAX", "3661d"),
        ("MQWEB_DELAY_MAX", "9" * 5000 + "d"), ("MQWEB_TRANSACTION_IMMUNITY_MS", "-1"),
        ("MQWEB_TRANSACTION_IMMUNITY_MS", "86400001"), ("MQWEB_TRANSACTION_CHECK_MS", "99"),
        ("MQWEB_TRANSACTION_CHECKS_MAX", "0"), ("MQWEB_TRANSACTION_CHECKS_MAX", "1001"),
        ("MQWEB_BROKER_NAME", "a@b@c"), ("MQWEB_BROKER_NAME", "@b"), ("MQWEB_BROKER_NAME", "a b"),
        ("DATABASE_URL", "mysql://u:hunter2@h/d"), ("REDIS_URL", "http://h"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(env.Refused, match=name) as refused:
        env.read({name: value})

    assert "hunter2" not in str(refused.value)


def test_flags_become_variables_of_the_two_commands_only() -> None:
    arguments = ["--port", "9000", "--data=/x", "--unknown"]

    assert flags.variables_of(["runmq", *arguments]) == {"MQWEB_PORT": "9000", "MQWEB_DATA": "/x"}
    assert flags.variables_of(["broker", *arguments]) != {}
    assert flags.variables_of(["migrate", *arguments]) == {}
    assert flags.variables_of([]) == {}


def test_every_flag_stands_for_a_variable_that_is_read() -> None:
    assert set(flags.FLAGS.values()) <= {variable.name for variable in env.VARIABLES}


def test_a_kept_secret_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secret-key"

    first, second = secretfiles.kept_secret(path), secretfiles.kept_secret(path)

    assert first == second
    assert len(first) >= 50
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["secret-key"]


def test_of_two_writers_at_once_the_first_wins(tmp_path: Path) -> None:
    path = tmp_path / "secret"

    assert secretfiles.write_once(path, "first")
    assert not secretfiles.write_once(path, "second")
    assert path.read_text() == "first\n"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {
            "MQWEB_GRPC_PORT": "9081",
            "DATABASE_URL": "postgres://u:p@db/x",
            "MQWEB_AUTH": "on",
            "MQWEB_SECRET_KEY": "k" * 50,
            "MQWEB_TRUSTED_PROXIES": "10.0.0.0/8,192.168.1.1",
            "MQWEB_SECOND_FACTOR": "operator,admin",
            "MQWEB_DELAY_LEVELS": "90s 2h",
            "MQWEB_RETENTION": "36h",
            "MQWEB_RETENTION_HOURS": "03;04",
            "MQWEB_SPARK_CONF": "spark.a=1;spark.b=2",
            "MQWEB_LAKE_BODIES": "drop",
            "MQWEB_ARCHIVE": "on",
            "MQWEB_WEBHOOK_HOSTS": "a.example,b.example",
            "MQWEB_ALLOWED_HOSTS": "mq.example,other.example",
        },
    ],
    ids=["nothing", "something of each kind"],
)
def test_what_is_in_force_is_told_by_its_variables_and_reads_back_as_it_is(
    given: dict[str, str],
) -> None:
    parsed = env.read(given)

    told = dict(parsed.in_force())

    assert set(told) == {variable.name for variable in env.VARIABLES}
    assert env.read(told) == parsed
