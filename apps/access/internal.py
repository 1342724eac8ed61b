"""The token of the product's own processes, derived from the secret key. Knows no door.

Worker and beat talk to the broker as any client does; nobody issues them a token, nobody can revoke
it, and no table has its digest. A new secret key makes a new one.
"""

import hashlib
import hmac

from apps.access.policy import Action, Grant, Kind, Principal, Token, digest_of

_LABEL = b"mqweb's own processes at the data plane, version 1"
_PREFIX = "mqi_"

NAME = "mqweb itself"
# What Celery's transport does with topics and groups; nothing of the cluster.
_ACTIONS = {
    Kind.TOPIC: frozenset({Action.PUB, Action.SUB, Action.CREATE, Action.UPDATE, Action.DELETE}),
    Kind.GROUP: frozenset({Action.PUB, Action.SUB, Action.CREATE, Action.UPDATE}),
}


def token_of(secret_key: str) -> str:
    """Return the token; who knows it may send to and receive from every topic."""
    mac = hmac.new(secret_key.encode(), _LABEL, hashlib.sha256)
    return f"{_PREFIX}{mac.hexdigest()}"


def entry(secret_key: str) -> Token:
    """Return the token as a book has it."""
    grants = [Grant(kind=kind, actions=actions) for kind, actions in _ACTIONS.items()]
    return Token(
        number=0,
        digest=digest_of(token_of(secret_key).encode()),
        principal=Principal(NAME, grants),
        label=NAME,
    )
