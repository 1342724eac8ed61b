"""What Spark needs on this machine, and whether it is there. Imports none of it."""

import importlib.metadata
import os
import re
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from apps.core.phrases import sentence, sentences

JAVA_HINT = sentence(
    "install Java 17, such as `apt install openjdk-17-jre-headless`, or set JAVA_HOME"
)
PYSPARK_HINT = sentence(
    "install `pyspark>=4.2.1,<4.4`, `pandas<3` and `pyarrow` into mqweb's environment"
)


_MASTERS = re.compile(
    r"local(\[([1-9][0-9]{0,3}|\*)\])?|local-cluster\[\d+,\d+,\d+\]|yarn|spark://\S+|k8s://\S+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What was found: paths and versions; None is missing."""

    java: str | None
    pyspark: str | None
    pyarrow: str | None

    @property
    def missing(self) -> tuple[str, ...]:
        """Return a sentence for each thing that is missing, with how to get it."""
        found = []
        if self.java is None:
            found.append(sentence("Java is missing: %(hint)s", hint=JAVA_HINT))
        if self.pyspark is None or self.pyarrow is None:
            names = [
                name
                for name, version in (("PySpark", self.pyspark), ("PyArrow", self.pyarrow))
                if version is None
            ]
            found.append(
                sentences(
                    "%(names)s is missing: %(hint)s",
                    "%(names)s are missing: %(hint)s",
                    len(names),
                    names=" and ".join(names),
                    hint=PYSPARK_HINT,
                )
            )
        return tuple(found)


def master_fault(text: str) -> str | None:
    """Return why a text cannot say where Spark's tasks run; None where it can."""
    if _MASTERS.fullmatch(text):
        return None
    return (
        f"{text[:80]!r}: must be local[N], local-cluster[N,CORES,MB], spark://HOST:PORT, yarn or "
        "k8s://HOST:PORT"
    )


def found_here() -> Requirements:
    """Look at the path and at what is installed; start nothing."""
    return Requirements(java=_java(), pyspark=_version("pyspark"), pyarrow=_version("pyarrow"))


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        return str(path) if path.is_file() and os.access(path, os.X_OK) else None
    return shutil.which("java")


def _version(package: str) -> str | None:
    if find_spec(package) is None:
        return None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
