"""A gate whose book a test changes, and headers of clients that sign for it."""

from collections.abc import Callable

from apps.access.gate import Denied, Gate, Knock
from apps.access.keypairs import secret_key_of
from apps.access.policy import Book, Principal, Token, checked, digest_of
from apps.access.policy.book import by_access_key
from apps.doors.grpc.signatures import signature_of
from apps.engine.testing.manualclock import ManualClock

TEXTS = {"shop": "mqt_shop-secret", "bill": "mqt_bill-secret"}
GRANTS = {
    "shop": [checked(kind="topic", actions=["pub"], match="literal", name="orders")],
    "bill": [
        checked(kind="topic", actions=["sub"], match="prefix", name="ord"),
        checked(kind="group", actions=["sub"], match="literal", name="billing"),
    ],
}
INSTALLATION = "the installation's secret key"
DATE = "20261123T010203Z"


class Policy:
    """A book that the test changes."""

    def __init__(self, clock: ManualClock) -> None:
        self.knocks: list[tuple[Denied, Knock]] = []
        self.held = self.made(set())
        self.gate = Gate(lambda: self.held, clock)
        self.gate.tell_to(lambda denied, knock: self.knocks.append((denied, knock)))

    def made(self, revoked: set[str]) -> Book:
        tokens = [
            Token(
                number=number,
                digest=digest_of(text.encode()),
                principal=Principal(name, GRANTS[name]),
                access_key=text[:12],
                secret_key=secret_key_of(digest_of(text.encode()), INSTALLATION),
            )
            for number, (name, text) in enumerate(TEXTS.items(), start=1)
            if name not in revoked
        ]
        return Book(
            version=len(revoked),
            tokens={token.digest: token for token in tokens},
            signing=by_access_key(tokens),
        )

    def revoke(self, name: str) -> None:
        self.held = self.made({name})
        self.gate.look()


def signed(name: str, *, form: str = "{key}", case: Callable[[str], str] = str) -> dict[str, str]:
    """Return the headers of a client that signs, as one of the languages writes them."""
    digest = digest_of(TEXTS[name].encode())
    signature = signature_of(secret_key_of(digest, INSTALLATION), DATE.encode()).hex()
    key = form.format(key=TEXTS[name][:12])
    return {
        "x-mq-client-id": f"{name}@1",
        "x-mq-date-time": DATE,
        "authorization": f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, "
        f"Signature={case(signature)}",
    }
