"""Variables of Spark and the lake: what is read, what is refused, what a session is made with."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from apps.bridge import flags
from apps.core.exceptions import ProblemError
from apps.pipelines import conf, requirements
from apps.pipelines.requirements import Requirements
from apps.pipelines.spark import session
from mqweb import env


def test_nothing_is_started_and_all_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    found = env.read({"MQWEB_DATA": str(tmp_path)}).pipelines

    assert (found.spark, found.spark_master, found.spark_memory) == ("off", "local[2]", "1g")
    assert (found.lake, found.lake_bodies, found.archive) == (tmp_path / "lake", True, False)
    assert found.lake_retention_ms == found.run_retention_ms == 400 * 86_400_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MQWEB_SPARK", "yes"),
        ("MQWEB_SPARK_MASTER", "local[two]"),
        ("MQWEB_SPARK_MASTER", "http://host"),
        ("MQWEB_SPARK_MEMORY", "1 GB"),
        ("MQWEB_SPARK_EXECUTOR_MEMORY", "0g"),
        ("MQWEB_SPARK_EXECUTOR_CORES", "0"),
        ("MQWEB_SPARK_CONF", "spark.a"),
        ("MQWEB_SPARK_CONF", "a=1"),
        ("MQWEB_LAKE_BODIES", "some"),
        ("MQWEB_LAKE_RETENTION", "for ever"),
        ("MQWEB_RUN_RETENTION", "29d"),
        ("MQWEB_ARCHIVE", "1"),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(env.Refused, match=name):
        env.read({name: value})


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local-cluster[1,1,800]", "spark://h:7077", "yarn", "k8s://h"]
)
def test_masters_of_spark_are_taken(master: str) -> None:
    assert env.read({"MQWEB_SPARK_MASTER": master}).pipelines.spark_master == master


def test_spark_needs_no_value_on_the_command_line() -> None:
    assert flags.variables_of(["runmq", "--spark"]) == {"MQWEB_SPARK": "on"}
    assert flags.variables_of(["runmq", "--spark", "demand", "--port", "81"]) == {
        "MQWEB_SPARK": "demand",
        "MQWEB_PORT": "81",
    }


def test_where_runs_read_and_write_follows_the_settings(settings: Any, tmp_path: Path) -> None:
    settings.MQWEB = env.read(
        {"MQWEB_DATA": str(tmp_path), "MQWEB_HOST": "::1", "MQWEB_LAKE_BODIES": "drop"}
    )

    place = conf.place()

    assert (place.lake, place.store) == (tmp_path / "lake", tmp_path / "store")
    assert (place.server, place.bodies) == ("http://[::1]:8000", False)
    assert place.kept == timedelta(days=400)


def test_a_local_session_stays_on_this_machine_and_operators_have_the_last_word(
    settings: Any, tmp_path: Path
) -> None:
    file = tmp_path / "conf"
    file.write_text("# comment\nspark.a 1 2\nspark.b=3\nspark.c\nother x\n")
    settings.MQWEB = env.read(
        {
            "MQWEB_SPARK_MEMORY": "512m",
            "MQWEB_SPARK_CONF": "spark.b=4; spark.sql.shuffle.partitions=9",
            "MQWEB_SPARK_CONF_FILE": str(file),
        }
    )

    found = session.spark_settings(tmp_path, "local[2]")

    assert (found["spark.a"], found["spark.b"]) == ("1 2", "4")
    assert found["spark.sql.shuffle.partitions"] == "9"
    assert found["spark.driver.memory"] == "512m"
    assert found["spark.driver.bindAddress"] == "127.0.0.1"
    assert found["spark.sql.session.timeZone"] == "UTC"
    assert found["spark.sql.adaptive.autoBroadcastJoinThreshold"] == "-1"
    assert "spark.executor.memory" not in found
    assert "spark.c" not in found


def test_executors_of_a_cluster_have_their_own_memory(settings: Any, tmp_path: Path) -> None:
    settings.MQWEB = env.read({"MQWEB_SPARK_EXECUTOR_MEMORY": "3g"})

    found = session.spark_settings(tmp_path, "spark://somewhere:7077")

    assert (found["spark.executor.memory"], found["spark.executor.cores"]) == ("3g", "2")
    assert "spark.driver.bindAddress" not in found


@pytest.mark.parametrize(
    ("master", "conf", "partitions"),
    [
        ("local[2]", "", "4"),
        ("local-cluster[3,2,800]", "", "12"),
        ("spark://somewhere:7077", "spark.cores.max=8", "16"),
        ("spark://somewhere:7077", "", "32"),
        ("yarn", "spark.sql.shuffle.partitions=7", "7"),
    ],
)
def test_a_shuffle_has_no_more_parts_than_cores_can_use(
    settings: Any, tmp_path: Path, master: str, conf: str, partitions: str
) -> None:
    settings.MQWEB = env.read({"MQWEB_SPARK_CONF": conf})

    found = session.spark_settings(tmp_path, master)

    assert found["spark.sql.shuffle.partitions"] == partitions


def test_executors_of_a_cluster_for_trials_are_what_its_workers_have_room_for(
    settings: Any, tmp_path: Path
) -> None:
    settings.MQWEB = env.read({"MQWEB_SPARK_CONF": "spark.executor.memory=600m"})

    found = session.spark_settings(tmp_path, "local-cluster[2,1,800]")
    assert (found["spark.executor.memory"], found["spark.executor.cores"]) == ("600m", "1")
    settings.MQWEB = env.read({})
    found = session.spark_settings(tmp_path, "local-cluster[2,1,800]")
    assert (found["spark.executor.memory"], found["spark.executor.cores"]) == ("800m", "1")


class Builder:
    """What a session is asked for; none is made."""

    def __init__(self) -> None:
        self.wanted: dict[str, str] = {}

    def appName(self, name: str) -> "Builder":  # noqa: N802
        return self.config("name", name)

    def master(self, master: str) -> "Builder":
        return self.config("master", master)

    def config(self, name: str, value: str) -> "Builder":
        self.wanted[name] = value
        return self

    def getOrCreate(self) -> None:  # noqa: N802
        from pyspark.errors import PySparkException

        raise PySparkException("enough")


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", "k8s://https://h:6443"])
def test_a_cluster_is_sent_the_bundle_and_what_operators_say(
    master: str, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = pytest.importorskip("pyspark.sql")
    settings.MQWEB = env.read(
        {
            "MQWEB_DATA": str(tmp_path),
            "MQWEB_SPARK_CONF": "spark.submit.pyFiles=more.zip; spark.pyspark.python=/opt/python",
        }
    )
    # What a session leaves in the environment is not for other tests.
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(requirements, "found_here", lambda: Requirements(
        java="java", pyspark="4.3.0", pyarrow="26"
    ))  # fmt: skip
    builder = Builder()
    monkeypatch.setattr(sql.SparkSession, "builder", builder)

    with pytest.raises(ProblemError, match="enough"):
        session.open_session(name="x", master=master)

    bundle = tmp_path / "spark" / "mqweb-spark.zip"
    assert bundle.is_file()
    assert builder.wanted["master"] == master
    assert builder.wanted["spark.submit.pyFiles"] == f"{bundle},more.zip"
    assert builder.wanted["spark.executor.memory"] == "1g"
    assert "spark.driver.host" not in builder.wanted
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"


def test_a_file_of_settings_that_is_not_there_is_told(settings: Any, tmp_path: Path) -> None:
    settings.MQWEB = env.read({"MQWEB_SPARK_CONF_FILE": str(tmp_path / "gone")})

    with pytest.raises(ProblemError, match="MQWEB_SPARK_CONF_FILE"):
        session.spark_settings(tmp_path, "local")
