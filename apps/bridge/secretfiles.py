"""Small secrets that are made once and kept in the data directory. Knows files only."""

import os
import secrets
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700

# 64 characters of 6 bits: more than Django's check or any guessing asks for.
_SECRET_BYTES = 48


def kept_secret(path: Path) -> str:
    """Return the secret in `path`; make it on first use, readable by its owner only.

    Two processes that make it at once agree on one: the link fails for the later.
    """
    if not path.exists():
        write_once(path, secrets.token_urlsafe(_SECRET_BYTES))
    return path.read_text().strip()


def write_once(path: Path, text: str) -> bool:
    """Write a private file whole, or leave the one that is there; say whether it was written."""
    path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(aside, path)
    except FileExistsError:
        return False
    finally:
        aside.unlink()
    return True
