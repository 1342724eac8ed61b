"""`python -m pyspark_mqweb.bundle FILE.zip`: all that executors need, for `--py-files`.

Knows packages and a zip file. In it are this package, the client, and the engine that decodes; not
NumPy, PyArrow and isal, which have compiled parts and must be installed where tasks run.
"""

import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

# The engine's own packages are loaded by their full names, so the one above comes along.
_WHOLE = ("apps.engine", "mqclient", "pyspark_mqweb")
_LEFT_OUT = ("apps.engine.testing", "mqclient.celery", "mqclient.cli")
# The same bytes give the same file.
_MOMENT = (1980, 1, 1, 0, 0, 0)


def build(target: Path) -> int:
    """Write the file and return how many modules are in it."""
    modules = {"apps/__init__.py": b'"""The product\'s packages, as far as Spark needs them."""\n'}
    for package in _WHOLE:
        root = _root(package)
        prefix = package.replace(".", "/")
        for path in sorted(root.rglob("*.py")):
            name = f"{prefix}/{path.relative_to(root).as_posix()}"
            if not name.replace("/", ".").startswith(tuple(f"{one}." for one in _LEFT_OUT)):
                modules[name] = path.read_bytes()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as found:
        for name, content in modules.items():
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            found.writestr(entry, content)
    return len(modules)


def _root(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{package} is not on the path, and belongs into the bundle")
    return Path(spec.origin).parent


def main(arguments: list[str]) -> int:
    """Build the file that is named; 2 without a name."""
    if len(arguments) != 1:
        print("usage: python -m pyspark_mqweb.bundle FILE.zip", file=sys.stderr)  # noqa: T201
        return 2
    count = build(Path(arguments[0]))
    print(f"{arguments[0]}: {count} modules")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
