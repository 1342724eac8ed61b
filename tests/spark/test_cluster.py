"""The source on executors that are processes of their own and have only what was sent to them."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark_mqweb.bundle import build

from tests.spark.serving import serving

JOB = Path(__file__).with_name("cluster_job.py")


def test_the_bundle_has_the_decoder_the_client_and_the_source(tmp_path: Path) -> None:
    build(tmp_path / "a.zip")
    build(tmp_path / "b.zip")

    names = zipfile.ZipFile(tmp_path / "a.zip").namelist()

    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert {"apps/engine/codec/columns.py", "mqclient/__init__.py", "pyspark_mqweb/source.py"} <= {
        *names
    }
    assert not [name for name in names if "testing" in name or "django" in name]


@pytest.mark.crash
@pytest.mark.spark_products
def test_a_job_on_a_cluster_reads_and_sends_with_nothing_but_the_bundle(
    store: Path, tmp_path: Path
) -> None:
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    build(tmp_path / "mqweb.zip")
    submit = Path(sys.executable).with_name("spark-submit")
    with serving(tmp_path / "served") as broker:
        done = subprocess.run(
            [
                str(submit), "--master", "local-cluster[1,1,800]",
                "--py-files", str(tmp_path / "mqweb.zip"),
                "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=512m",
                "--conf", "spark.executor.memory=512m",
                str(JOB), str(store), broker.url,
            ],
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            capture_output=True,
            text=True,
            timeout=1_200,
        )  # fmt: skip

    assert done.returncode == 0, done.stderr[-4_000:]
    assert "COUNTS [(0, 130), (1, 70)]" in done.stdout
    assert "mqweb.zip" in done.stdout.partition("CODE ")[2]
    assert "SENT 130" in done.stdout
