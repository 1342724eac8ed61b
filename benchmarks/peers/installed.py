"""What of a peer is on this machine: its server on the PATH, its client among the packages."""

import importlib.util
import os
import shutil
import subprocess
from importlib import metadata

# Where Debian puts servers; an ordinary account does not search there.
_MORE_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin")


def program(name: str) -> str:
    """Return the path of a program, empty when it is not installed."""
    directories = [os.environ.get("PATH", os.defpath), *_MORE_DIRECTORIES]
    return shutil.which(name, path=os.pathsep.join(directories)) or ""


def missing(server: str, *modules: str) -> str:
    """Say what has to be installed; empty when nothing."""
    if not program(server):
        return f"{server} is not installed: apt-get install {server}"
    absent = [module for module in modules if importlib.util.find_spec(module) is None]
    if absent:
        return f"no Python package for {', '.join(absent)}: pip install -r requirements-bench.txt"
    return ""


def output_of(name: str, *arguments: str) -> str:
    """Return what an installed program prints about itself."""
    command = [program(name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def clients(*packages: str) -> str:
    """Return packages with their versions."""
    return ", ".join(f"{package} {metadata.version(package)}" for package in packages)
