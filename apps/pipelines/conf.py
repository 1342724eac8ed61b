"""Django settings to what pipelines need to know. Decides nothing; imports no Spark."""

from datetime import timedelta
from pathlib import Path

from django.conf import settings

from apps.pipelines.place import Place


def place() -> Place:
    """Return where runs of this installation read and write."""
    environment = settings.MQWEB
    host = f"[{environment.host}]" if ":" in environment.host else environment.host
    return Place(
        lake=environment.pipelines.lake,
        store=environment.store,
        server=f"http://{host}:{environment.port}",
        bodies=environment.pipelines.lake_bodies,
        kept=timedelta(milliseconds=environment.pipelines.lake_retention_ms),
        bytes_max=environment.pipelines.lake_bytes,
    )


def directory() -> Path:
    """Return the directory of Spark's own files: logs of runs, scratch space, the bundle."""
    data: Path = settings.MQWEB.data
    return data / "spark"
