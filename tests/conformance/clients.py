"""The official clients: where their drivers are built and how they are started.

Each is built by its own language's ordinary package tool, with the version pinned in the driver's
own manifest, into a directory outside the sources. Knows no server.

    python -m tests.conformance.clients [NAME ...]    builds some, or all
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance.driving import Driver

_DRIVERS = Path(__file__).parent / "drivers"
_ROOT = Path(__file__).parents[2]
_BUILD_S_MAX = 1800.0
_MARK = ".built"
# Features that some clients lack, as the table names them.
TLS = "TLS, with access control"
UNTRUSTED = "TLS: a certificate that nobody trusts is refused"
LITE_SENT = "lite topics: messages, and names that are refused"
LITE_PUSHED = "lite topics: LitePushConsumer, subscribed and unsubscribed"
LITE_RETRIED = "lite topics: LitePushConsumer, a failure comes again"
LITE_ALONE = "lite topics: the newest subscriber alone, in an exclusive group"
LITE_TOLD = "lite topics: who loses one to another is told so"
LITE_BACK = "lite topics: a broker that was killed and came back"
LITE_SIMPLE = "lite topics: LiteSimpleConsumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One official client. `needs` are programs without which it cannot be built here.

    What it `lacks` are features that it has no call for, and why the table says so.
    """

    name: str
    package: str
    version: str
    needs: tuple[str, ...]
    build: Callable[[Path], None]
    command: Callable[[Path], Sequence[str]]
    environ: Mapping[str, str]
    lacks: Mapping[str, str] = field(default_factory=dict)
    has_push: bool = True

    @property
    def directory(self) -> Path:
        """Return where it is built."""
        return builds() / self.name

    def is_built(self) -> bool:
        """Say whether what is built was built of the sources as they are."""
        mark = self.directory / _MARK
        return mark.exists() and mark.read_text() == self._digest()

    def make(self) -> None:
        """Build the driver, unless that is done; raise CalledProcessError."""
        if self.is_built():
            return
        (self.directory / _MARK).unlink(missing_ok=True)
        shutil.copytree(_DRIVERS / self.name, self.directory, dirs_exist_ok=True)
        self.build(self.directory)
        (self.directory / _MARK).write_text(self._digest())

    def start(self, home: Path, *, trusted: Path | None = None) -> Driver:
        """Start a driver whose client keeps its files under `home`.

        It trusts the certificates of a file instead of the system's, where one is named.
        """
        home.mkdir(parents=True, exist_ok=True)
        environ = {"HOME": str(home), **self.environ}
        if trusted is not None:
            # The clients have no setting for it; both libraries of gRPC below them do.
            environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = str(trusted)
        log = home / f"{self.name}.log"
        return Driver(self.command(self.directory), log=log, environ=environ)

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for path in sorted((_DRIVERS / self.name).rglob("*")):
            if path.is_file():
                digest.update(path.read_bytes())
        return digest.hexdigest()


def builds() -> Path:
    """Return the directory of what is built (MQWEB_CONFORMANCE_BUILDS)."""
    chosen = os.environ.get("MQWEB_CONFORMANCE_BUILDS")
    return Path(chosen) if chosen else _ROOT / "data" / "conformance"


def _run(directory: Path, *command: str, **environ: str) -> None:
    subprocess.run(
        command, cwd=directory, check=True, timeout=_BUILD_S_MAX, env={**os.environ, **environ}
    )


def _build_python(directory: Path) -> None:
    _run(directory, sys.executable, "-m", "venv", "venv")
    pip = str(directory / "venv/bin/pip")
    _run(directory, pip, "install", "--disable-pip-version-check", "-q", "-r", "requirements.txt")


def _build_node(directory: Path) -> None:
    _run(directory, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent")


def _build_java(directory: Path) -> None:
    _run(directory, "mvn", "-q", "-B", "package")


def _build_go(directory: Path) -> None:
    _run(directory, "go", "build", "-mod=mod", "-o", "driver", ".", GOFLAGS="", GOTOOLCHAIN="local")


def _build_rust(directory: Path) -> None:
    _run(directory, "cargo", "build", "--quiet")


_NOTHING: Mapping[str, str] = {}
_CHECKS_NONE = "the client takes any certificate"
_NO_CALL = "the client has no call for it"
_IS_DEAF = "the client does not heed it"
_NO_SIMPLE = "the client has no LiteSimpleConsumer"

CLIENTS = {
    client.name: client
    for client in (
        Client(
            name="python",
            package="rocketmq-python-client",
            version="5.1.2",
            needs=(),
            build=_build_python,
            command=lambda built: [str(built / "venv/bin/python"), "-u", str(built / "driver.py")],
            environ=_NOTHING,
            lacks={LITE_TOLD: _IS_DEAF},
        ),
        Client(
            name="node",
            package="rocketmq-client-nodejs",
            version="1.0.8",
            needs=("node", "npm"),
            build=_build_node,
            command=lambda built: ["node", str(built / "driver.mjs")],
            environ=_NOTHING,
            lacks={LITE_TOLD: _IS_DEAF, LITE_SIMPLE: _NO_SIMPLE},
        ),
        Client(
            name="java",
            package="rocketmq-client-java",
            version="5.2.0",
            needs=("java", "mvn"),
            build=_build_java,
            command=lambda built: [
                "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
                "-cp", f"{built}/target/driver-1.jar:{built}/target/lib/*", "Driver",
            ],
            environ=_NOTHING,
            lacks={UNTRUSTED: _CHECKS_NONE, LITE_SIMPLE: _NO_SIMPLE},
        ),
        Client(
            name="go",
            package="github.com/apache/rocketmq-clients/golang/v5",
            version="5.1.4",
            needs=("go",),
            build=_build_go,
            command=lambda built: [str(built / "driver")],
            environ=_NOTHING,
            lacks={
                UNTRUSTED: _CHECKS_NONE,
                LITE_SIMPLE: _NO_SIMPLE,
                LITE_TOLD: "the client heeds it, and does not say so to its application",
            },
        ),
        Client(
            name="rust",
            package="rocketmq",
            version="5.0.0",
            needs=("cargo",),
            build=_build_rust,
            command=lambda built: [str(built / "target/debug/driver")],
            environ=_NOTHING,
            has_push=False,
            lacks={
                "SimpleConsumer: change of the invisible time": _NO_CALL,
                "recall of a delayed message": _NO_CALL,
                "messages with a priority, where the topic takes them": _NO_CALL,
                "a topic of priorities: the highest first": _NO_CALL,
                "namespaces": _NO_CALL,
                LITE_SENT: _NO_CALL,
                LITE_PUSHED: _NO_CALL,
                LITE_RETRIED: _NO_CALL,
                LITE_ALONE: _NO_CALL,
                LITE_TOLD: _NO_CALL,
                LITE_BACK: _NO_CALL,
                LITE_SIMPLE: _NO_CALL,
                TLS: "the client has a switch for TLS and no TLS behind it",
                UNTRUSTED: "the client has a switch for TLS and no TLS behind it",
            },
        ),
    )
}  # fmt: skip


def main(names: Sequence[str]) -> int:
    """Build the named clients, or all; return 1 when one could not be built."""
    failed = 0
    for name in names or CLIENTS:
        client = CLIENTS[name]
        missing = [program for program in client.needs if shutil.which(program) is None]
        if missing:
            print(f"{name}: not built, there is no {', '.join(missing)}")
            continue
        try:
            client.make()
        except subprocess.CalledProcessError as error:
            print(f"{name}: not built: {error}")
            failed = 1
        else:
            print(f"{name}: {client.package} {client.version}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
