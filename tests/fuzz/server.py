"""A product with access on, one of each thing, and a token for each role. Knows plain HTTP only."""

import http.client
import json
import secrets
from pathlib import Path
from typing import Any

from tests.web.product import Product

ROLES = ("admin", "operator", "viewer", "narrow")


class Open:
    """A product that asks nobody who they are."""

    def __init__(self, data: Path, **variables: str) -> None:
        """Start it, and fill it; it serves when this returns."""
        self.data = data
        self.product = Product(data, **variables)
        self.product.wait_until_ready()
        self.url = f"http://127.0.0.1:{self.product.port}"

    def call(self, method: str, path: str, body: object = None, token: str = "") -> tuple[int, Any]:
        """Return status and document of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.product.port, timeout=60)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        payload = None if body is None else json.dumps(body)
        connection.request(method, path, payload, headers)
        answer = connection.getresponse()
        found = answer.read()
        connection.close()
        return answer.status, json.loads(found) if found else None

    def operations(self, token: str = "") -> list[str]:
        """Return the names of all operations of the document."""
        status, document = self.call("GET", "/api/schema/", token=token)
        assert status == 200, document
        return [
            operation["operationId"]
            for item in document["paths"].values()
            for operation in item.values()
        ]

    def fill(self, token: str = "") -> None:
        """Make one of each thing that addresses name."""
        wanted: list[tuple[str, str, object]] = [
            ("PUT", "/api/v1/topics/orders", {"queue_count": 2}),
            ("PUT", "/api/v1/groups/billing", {}),
            (
                "POST",
                "/api/v1/topics/orders/messages",
                {"messages": [{"body": "hello", "keys": ["k"]}]},
            ),
            (
                "POST",
                "/api/v1/topics/orders/messages",
                {"messages": [{"body": "later", "delay_ms": 3_600_000}]},
            ),
            (
                "POST",
                "/api/v1/groups/billing/messages:receive",
                {"topic": "orders"},
            ),
            (
                "POST",
                "/api/v1/alert-rules",
                {"name": "behind", "kind": "lag", "threshold": 100, "severity": "warning"},
            ),
        ]
        for method, path, body in wanted:
            status, answer = self.call(method, path, body, token)
            assert status < 300, (method, path, status, answer)

    def close(self) -> int:
        """Stop it; return its exit code."""
        return self.product.interrupt()


class Closed(Open):
    """A product that asks everybody; `tokens` are those of the roles."""

    def __init__(self, data: Path, **variables: str) -> None:
        """Start it open, make accounts and their tokens, and start it again closed."""
        super().__init__(data, **variables)
        self.fill()
        self.tokens = {role: self._token(role) for role in ROLES}
        assert self.close() == 0
        self.product.kill_everything()
        super().__init__(
            data, MQWEB_AUTH="on", MQWEB_SECRET_KEY=secrets.token_urlsafe(48), **variables
        )

    def _token(self, role: str) -> str:
        name = f"fuzz-{role}"
        rights = "none" if role == "narrow" else role
        self._made("/api/v1/accounts", {"account": name, "role": rights})
        if role == "narrow":
            for kind, thing in (("topic", "orders"), ("group", "billing")):
                self._made(
                    "/api/v1/grants",
                    {
                        "account": name,
                        "kind": kind,
                        "actions": ["get", "pub", "sub"],
                        "match": "literal",
                        "name": thing,
                    },
                )
        return str(self._made("/api/v1/tokens", {"account": name, "label": "fuzz"})["secret"])

    def _made(self, path: str, body: object) -> Any:
        status, answer = self.call("POST", path, body)
        assert status == 201, (path, status, answer)
        return answer
