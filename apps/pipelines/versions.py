"""Which version of a job's code there is: a digest of its files. No Spark, no Django."""

import hashlib
from functools import cache
from pathlib import Path

from apps.pipelines.catalogue import JOBS

_HERE = Path(__file__).parent
_COMMON = ("catalogue.py", "columns.py", "tables.py")
_CHARACTERS = 16


@cache
def code_version(job: str) -> str:
    """Return a digest of all files that can change what a job finds out.

    These are the tables, the catalogue and `spark/` without the modules of other jobs. It is read
    once a process, which has the code of that moment in memory as well.
    """
    return digest_of(_HERE, job)


def digest_of(root: Path, job: str) -> str:
    """Return the digest for files that lie as in this package."""
    others = JOBS.keys() - {job}
    digest = hashlib.sha256()
    for path in sorted([*(root / name for name in _COMMON), *(root / "spark").rglob("*.py")]):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[:2] == ("spark", "jobs") and set(parts[2:3]) & others:
            continue
        digest.update("/".join(parts).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:_CHARACTERS]
