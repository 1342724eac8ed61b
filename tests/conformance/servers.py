"""What a scenario runs against: mqweb, or Apache's own server to see that the scenario is right.

Knows how topics and groups are made there, and how the server is restarted; no client.
"""

import http
import http.client
import json
import subprocess
import sys
import time
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.certificates import self_signed
from tests.web.product import ROOT, Product, environment, free_port, wait_for

# Short, so that a scenario need not wait for minutes; both servers are given the same.
RETRY_DELAY_MS = 1_000
CHECK_AFTER_MS = 3_000
_RESTART_S = 120.0
_SECRET_KEY = "of a run on the loopback address, and of no other use at all" * 2
# Variables that name a product that runs already, without and with access control.
SHARED, GUARDED = "MQWEB_CONFORMANCE_SERVER", "MQWEB_CONFORMANCE_GUARDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a client signs with."""

    access_key: str
    secret: str


class Server(Protocol):
    """A server with the door RocketMQ's clients come through."""

    @property
    def name(self) -> str:
        """Return what the table calls it."""
        ...

    @property
    def endpoint(self) -> str:
        """Return host and port of the door."""
        ...

    @property
    def tls_endpoint(self) -> str:
        """Return host and port of the same door by TLS."""
        ...

    def create_topic(self, topic: str, kind: str = "NORMAL", queue_count: int = 4) -> None:
        """Make a topic of a type: NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY or MIXED."""
        ...

    def create_group(self, group: str, *, is_fifo: bool = False, retry_max: int = 16) -> None:
        """Make a group that tries a failed message again after RETRY_DELAY_MS."""
        ...

    def dead_letter_count(self, group: str) -> int:
        """Return how many dead letters a group has."""
        ...

    def restart(self) -> None:
        """Kill the server as the kernel would, start it again and wait until it serves."""
        ...

    def stop(self) -> None:
        """Stop it."""
        ...


class MqwebDoor:
    """A product that runs already, by where it is; nothing of it is started or stopped here."""

    name = "mqweb"

    def __init__(
        self, data: Path, http_port: int, grpc_port: int, tls_port: int, token: str | None = None
    ) -> None:
        """Connect nowhere yet."""
        self.http_port = http_port
        self.grpc_port = grpc_port
        self.tls_port = tls_port
        self._data = data
        self._token = token

    @classmethod
    def named(cls, place: str) -> "MqwebDoor":
        """Return the one that `place` of another process says."""
        data, http_port, grpc_port, tls_port, token = place.split(",")
        return cls(Path(data), int(http_port), int(grpc_port), int(tls_port), token or None)

    @property
    def place(self) -> str:
        """Return where it is, for other processes."""
        return f"{self._data},{self.http_port},{self.grpc_port},{self.tls_port},{self._token or ''}"

    @property
    def endpoint(self) -> str:
        """Return host and port of the door."""
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def tls_endpoint(self) -> str:
        """Return host and port of the same door by TLS; the certificate is for this name."""
        return f"localhost:{self.tls_port}"

    @property
    def certificate(self) -> Path:
        """Return the file of the certificate that a client has to trust."""
        return _certificates(self._data) / "cert.pem"

    def create_topic(self, topic: str, kind: str = "NORMAL", queue_count: int = 4) -> None:
        """Make a topic."""
        body = {"queue_count": queue_count, "type": kind}
        self._call("PUT", f"/topics/{_quoted(topic)}", body)

    def create_group(self, group: str, *, is_fifo: bool = False, retry_max: int = 16) -> None:
        """Make a group."""
        body = {
            "ordered": is_fifo,
            "retry_max": retry_max,
            "retry_policy": "custom",
            "retry_delays_ms": [RETRY_DELAY_MS],
        }
        self._call("PUT", f"/groups/{_quoted(group)}", body)

    def make_exclusive(self, group: str) -> None:
        """Let the newest subscriber of a lite topic have it alone."""
        self._call("PUT", f"/groups/{_quoted(group)}", {"lite_model": "EXCLUSIVE"})

    def dead_letter_count(self, group: str) -> int:
        """Return how many dead letters the list shows."""
        return len(self._call("GET", f"/groups/{_quoted(group)}/dead-letters")["items"])

    def restart(self) -> None:
        """Fail: others use it."""
        raise AssertionError("a shared server is not restarted")

    def stop(self) -> None:
        """Leave it as it is."""

    def issue(self, account: str, *grants: str) -> Credentials:
        """Make an account; return the key pair of its token, which RocketMQ's clients sign with.

        A grant is kind, name and actions, a blank apart.
        """
        self._manage("account", "create", account, "--program")
        for grant in grants:
            self._manage("account", "grant", account, *grant.split(" "))
        token, access_key, secret = self._issued(account)
        # Another process made it: the broker has read of it within a second.
        wait_for(lambda: self._is_known(token))
        return Credentials(access_key=access_key, secret=secret)

    def _is_known(self, token: str) -> bool:
        return self._asked("GET", "/topics", None, token)[0] != http.HTTPStatus.UNAUTHORIZED

    def _issued(self, account: str) -> tuple[str, str, str]:
        words = ("token", "create", account, "--label", "conformance", "--key-pair")
        token, access_key, secret = self._manage(*words).split()[-3:]
        return token, access_key, secret

    def _call(self, method: str, path: str, body: object = None) -> Any:
        status, text = self._asked(method, path, body, self._token)
        assert status < 300, (method, path, status, text)
        return json.loads(text)

    def _asked(self, method: str, path: str, body: object, token: str | None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=60)
        try:
            headers = {"Content-Type": "application/json"}
            if token is not None:
                headers["Authorization"] = f"Bearer {token}"
            payload = None if body is None else json.dumps(body)
            connection.request(method, f"/api/v1{path}", payload, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _manage(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=environment(
                MQWEB_DATA=str(self._data), MQWEB_AUTH="on", MQWEB_SECRET_KEY=_SECRET_KEY
            ),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


class Mqweb(MqwebDoor):
    """The product, as `manage.py runmq` starts it."""

    def __init__(self, data: Path, *, is_guarded: bool = False, migrates: bool = False) -> None:
        """Start it and return when it serves; `is_guarded` demands tokens.

        It `migrates` where no run of tests has a database ready.
        """
        grpc_port, tls_port = free_port(), free_port()
        folder = _certificates(data)
        folder.mkdir(parents=True)
        certificate, key = self_signed(folder)
        self._product = Product(
            data,
            # Who may do what takes no tasks.
            worker_processes=0 if is_guarded else 1,
            migrates=migrates,
            MQWEB_GRPC_PORT=str(grpc_port),
            MQWEB_GRPC_TLS_PORT=str(tls_port),
            MQWEB_GRPC_TLS_CERT=str(certificate),
            MQWEB_GRPC_TLS_KEY=str(key),
            MQWEB_AUTH="on" if is_guarded else "off",
            MQWEB_TRANSACTION_IMMUNITY_MS=str(CHECK_AFTER_MS),
            MQWEB_TRANSACTION_CHECK_MS=str(CHECK_AFTER_MS),
            MQWEB_SECRET_KEY=_SECRET_KEY,
        )
        self._product.wait_until_ready()
        super().__init__(data, self._product.port, grpc_port, tls_port)
        if is_guarded:
            self._token, _, _ = self._issued("admin")

    def restart(self) -> None:
        """Kill the broker's process; its supervisor starts it again on the same data and ports."""
        broker = self._product.child("broker")
        broker.kill()
        deadline_s = time.monotonic() + _RESTART_S
        while time.monotonic() < deadline_s:
            if self._broker_pid() != broker.pid and self._is_ready():
                return
            time.sleep(0.1)
        raise AssertionError(f"the broker does not come back: {self._product.output[-4000:]}")

    def stop(self) -> None:
        """Stop it and see that it ended well."""
        try:
            assert self._product.interrupt() == 0, self._product.output[-4000:]
        finally:
            self._product.kill_everything()

    def _broker_pid(self) -> int:
        started = self._product.events("part_started")
        return int([event["pid"] for event in started if event["part"] == "broker"][-1])

    def _is_ready(self) -> bool:
        try:
            return self._product.request("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _certificates(data: Path) -> Path:
    return data.with_name(f"{data.name}-certificates")
